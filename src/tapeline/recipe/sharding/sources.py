"""What a tensor of a step is computed from, inside conditions and loops too, whose results each have their own sources.

A condition that shards take together has the results of all of them, and a loop carries more than one value.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tapeline.recipe.sharding import meetings
from tapeline.runtime.tensorflow_private import functions_in

_GRAPHS = {"If": ("then_branch", "else_branch"), "While": ("cond", "body")}
"""Operation → the attributes that name its functions, each of which no other operation calls."""


class Sources:
    """Goes back from tensors of a step's graph, and of the graphs inside it."""

    def __init__(self, step: meetings.Shards) -> None:
        self._step = step
        self._inside: set[int] = set()
        self._given: dict[int, list[Any]] = {}

    def has(self, value: Any) -> bool:
        """Return whether a value is a tensor of one of these graphs."""
        return self._step.owner(value) is not None or id(getattr(value, "graph", None)) in self._inside

    def of(self, tensor: tf.Tensor) -> list[Any]:
        """Return what a tensor is computed from, one step back; none for an argument of the step."""
        if id(tensor) in self._given:
            return self._given[id(tensor)]
        inside = self._step.owner(tensor)
        if inside is not None and (outer := inside.outside(tensor)) is not None:
            return [outer]
        operation = tensor.op
        kind, graphs = called(operation)
        if kind == "If":
            condition, *given = operation.inputs
            for graph in graphs:
                self._enter(graph, [[one] for one in given])
            return [condition, *(graph.outputs[tensor.value_index] for graph in graphs)]
        if kind == "While":
            test, body = graphs
            carried = [list(pair) for pair in zip(operation.inputs, body.outputs, strict=True)]
            for graph in graphs:
                self._enter(graph, carried)
            return [*carried[tensor.value_index], *test.outputs]
        return [*operation.inputs]

    def _enter(self, graph: Any, given: Sequence[list[Any]]) -> None:
        self._inside.add(id(graph))
        self._given |= {id(inner): outer for inner, outer in zip(graph.inputs, given, strict=True)}


def called(operation: Any) -> tuple[str, list[Any]]:
    """Return `If` or `While` and the graphs of such an operation's functions; "" and none for another operation."""
    kind = operation.type.removeprefix("Stateless")
    known = functions_in(operation.graph)
    found = [known.get(operation.get_attr(name).name) for name in _GRAPHS.get(kind, ())]
    graphs = [one.graph for one in found if one is not None]
    return (kind, graphs) if graphs and len(graphs) == len(found) else ("", [])
