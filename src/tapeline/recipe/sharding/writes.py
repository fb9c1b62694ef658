"""A write to a variable inside a step of shards is done once, for all: it may not depend on one shard's examples."""

from collections.abc import Callable, Collection
from typing import Any

import tensorflow as tf

from tapeline.recipe.sharding import meetings
from tapeline.runtime.errors import InputError


class Writes:
    """What `tensorflow_private.writes` calls for the writes of shards; others pass.

    own: tensors that are only one shard's: its examples and its seeds. Seeds that generators draw are found by their
    states' handles.
    """

    def __init__(self, own: Collection[tf.Tensor], states: Collection[tf.Variable]) -> None:
        self._own = {id(tensor) for tensor in own}
        self._handles = {id(state.handle) for state in states}

    def __call__(self, variable: Any, value: Any, write: Callable[[Any], Any]) -> Any:
        """Do one write for all shards. Raises `InputError` if each would write another value."""
        shard = meetings.running()
        if shard is None or shard.drawing or (shard.step.graph is not None and tf.executing_eagerly()):
            return write(value)  # not in a shard; a seed generator's state; a new variable's initial value

        name = variable.name.split(":")[0]

        def once(brought: list[Any]) -> Any:
            if self._depends(brought[0], shard.step):
                raise InputError(
                    f"train_step changes {name} by a value that depends on its examples, and each shard of "
                    f"the batch has others: pass gradients to self.update, which takes their mean, or set train.shards "
                    f"to 1"
                )
            return write(brought[0])

        return meetings.meet(f"the change of {name}", value, once)

    def _depends(self, value: Any, step: meetings.Shards) -> bool:
        """Return whether a value comes from one shard's examples or seeds, other than through a meeting."""
        if step.graph is None:
            return False  # the same step was traced before
        states = {id(inner) for outer, inner in step.graph.captures if id(outer) in self._handles}
        found = [one for one in tf.nest.flatten(value, expand_composites=True) if _is_in(one, step.graph)]
        seen: set[int] = set()
        while found:
            tensor = found.pop()
            if id(tensor) in seen or step.met(tensor) is not None:
                continue
            seen.add(id(tensor))
            if id(tensor) in self._own or id(tensor) in states:
                return True
            found += tensor.op.inputs
        return False


def _is_in(value: Any, graph: Any) -> bool:
    return getattr(value, "graph", None) is graph and not isinstance(value, tf.Variable)
