"""Find tensors that get from one shard to another through what Python keeps."""

from typing import Any

import tensorflow as tf


class Owners:
    """Knows which shard has added which operation to a graph. graph: None for eager execution, which adds none.

    outer: those of the graph outside, if this one is a branch's.
    """

    def __init__(self, graph: Any, outer: "Owners | None") -> None:
        self._graph, self._outer = graph, outer
        self._shards: dict[str, int] = {}
        self._begun = 0

    def begin(self) -> None:
        """Note that a shard goes on now."""
        if self._graph is not None:
            self._begun = len(self._graph.get_operations())

    def end(self, number: int) -> tuple[str, int] | None:
        """Note that what was added since `begin` is a shard's.

        Returns the name and the number of another shard's tensor that it uses, if any. Constants are anyone's.
        """
        if self._graph is None:
            return None
        added = self._graph.get_operations()[self._begun :]
        self._shards |= dict.fromkeys((one.name for one in added), number)
        outside = self._outside()
        for operation in added:
            for tensor in operation.inputs:
                owner = self._owner(tensor, outside)
                if owner not in (None, number) and not is_constant(tensor):
                    return tensor.op.name, owner
        return None

    def _owner(self, tensor: tf.Tensor, outside: dict[int, Any]) -> Any:
        if tensor.op.type != "Placeholder":
            return self._shards.get(tensor.op.name)
        outer = outside.get(id(tensor))  # whoever has captured it first
        around = self._outer
        if around is None or getattr(outer, "graph", None) is not around._graph:
            return None
        return around._owner(outer, around._outside())

    def _outside(self) -> dict[int, Any]:
        """Return the tensors outside that those inside stand for, by the `id`s of these; none for the step's graph."""
        return {id(inner): outer for outer, inner in self._graph.captures} if self._outer else {}


def is_constant(tensor: Any) -> bool:
    """Return whether a tensor of a graph depends on constants alone."""
    seen: set[str] = set()
    found = [tensor]
    while found:
        operation = found.pop().op
        if operation.name in seen:
            continue
        seen.add(operation.name)
        if operation.type == "Placeholder" or operation.op_def.is_stateful:
            return False
        found += operation.inputs
    return True
