"""What a traced function computes, as digests that each trace of the same code shares.

An operation's digest covers its type, its attributes, and the digests of all that it reads: back to features,
constants, and variables by the names that checkpoints have. Names of operations, the order in which they were made,
and what nobody reads are no part of it. So a layer that takes the place of another shows, and how the data are read
does not.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import tensorflow as tf

from tapeline.runtime.tensorflow_private import called_by, functions_in
from tapeline.train.checks.completeness import READS

_SAME = ("Identity", "IdentityN")
"""Operations that pass on what they are given."""
_UNTOLD = frozenset({"token", "config", "config_proto", "executor_type"})
"""Attributes that say nothing about what is computed; those that begin with `_` do not either."""


@dataclass(frozen=True)
class Part:
    """An operation, or what a function returns and changes."""

    digest: str
    operation: Any = field(default=None, repr=False)


def parts(function: Any, known: Mapping[int, str], *, is_of_feed: Callable[[Any], bool]) -> list[Part]:
    """Return the operations that decide what a concrete function returns and changes, inner functions' too.

    They are in an order in which each follows all that it reads. The last part is the whole. known: `id` of a captured
    tensor → what it is. is_of_feed: whether an operation that reads an argument only hands over the data.
    """
    graph = function.graph
    given = dict(zip(map(id, function.inputs), _arguments(function.structured_input_signature), strict=False))
    told = {id(inner): known[id(outer)] for outer, inner in graph.captures if id(outer) in known}
    data = {**given, **{number: text for number, text in told.items() if text.startswith(_FEATURE)}}
    labels = {**given, **told, **_handed_over(graph, data, is_of_feed)}
    found: list[Part] = []
    whole = _Digests(graph, labels, found, {}).whole(_names(function.structured_outputs))
    return [*found, Part(whole)]


_FEATURE = "feature "


def feature(name: str) -> str:
    """Return what `known` of `parts` says of a tensor with a feature's values."""
    return f"{_FEATURE}{name}"


def digest(*told: Any) -> str:
    """Return a digest of texts and numbers."""
    return blake2b(repr(told).encode(), digest_size=16).hexdigest()


def _arguments(signature: Any) -> list[str]:
    """Return what each argument is: an entry of a dict is a feature, since only batches are dicts."""
    arguments, _ = signature
    found: list[str] = []
    for number, argument in enumerate(arguments):
        found += map(feature, sorted(argument)) if isinstance(argument, Mapping) else [f"argument {number}"]
    return found


def _names(outputs: Any) -> list[str]:
    return sorted(outputs) if isinstance(outputs, Mapping) else []


def _handed_over(graph: Any, given: Mapping[int, str], is_of_feed: Callable[[Any], bool]) -> dict[int, str]:
    """Return the tensors that the feed hands over, as the features in them: parts of chunks, or gathered examples."""
    found = dict(given)
    for operation in graph.get_operations():
        read = {found[id(tensor)] for tensor in operation.inputs if id(tensor) in found}
        if read and is_of_feed(operation):
            features = {text for text in read if text.startswith(_FEATURE) and text != _FEATURE}  # "" has the indices
            found |= dict.fromkeys(map(id, operation.outputs), ", ".join(sorted(features or read)))
    return found


class _Digests:
    """The digests of one graph. labels: `id` of a tensor → what it is. functions: digests of functions, by `id`."""

    def __init__(self, graph: Any, labels: dict[int, str], found: list[Part], functions: dict[int, str]) -> None:
        self._graph, self._labels, self._found, self._known = graph, labels, found, functions
        self._changed: dict[str, str] = {}
        """Resource → digest of the last operation that may have changed it."""
        needed = self._needed()
        for operation in graph.get_operations():
            if operation in needed:
                self._add(operation)

    def whole(self, names: Sequence[str] = ()) -> str:
        """Return the digest of what the graph returns and changes."""
        returned = [self._label(tensor) for tensor in self._graph.outputs]
        return digest(names, returned, sorted(self._changed.items()))

    def _needed(self) -> set[Any]:
        """Return the operations that decide what is returned or changed."""
        waiting = [tensor.op for tensor in self._graph.outputs if id(tensor) not in self._labels]
        waiting += [one for one in self._graph.get_operations() if _may_change(one)]
        needed = set(waiting)
        while waiting:
            for tensor in waiting.pop().inputs:
                if id(tensor) not in self._labels and tensor.op not in needed:
                    needed.add(tensor.op)
                    waiting.append(tensor.op)
        return needed

    def _add(self, operation: Any) -> None:
        read = [self._label(tensor) for tensor in operation.inputs]
        if operation.type in _SAME:
            self._labels |= zip(map(id, operation.outputs), read, strict=True)
            return
        resources = [label for tensor, label in zip(operation.inputs, read, strict=True) if tensor.dtype == tf.resource]
        before = [self._changed.get(label) for label in resources]
        made = digest(operation.type, *self._attributes(operation), read, before)
        self._labels |= {id(tensor): f"{made}:{number}" for number, tensor in enumerate(operation.outputs)}
        self._found.append(Part(made, operation))
        if resources and operation.type not in READS:
            self._changed |= dict.fromkeys(resources, made)

    def _label(self, tensor: Any) -> str:
        return self._labels.get(id(tensor)) or f"{tensor.op.type} {tensor.dtype.name}"

    def _attributes(self, operation: Any) -> Iterator[Any]:
        for name, value in sorted(operation.node_def.attr.items()):
            if called := called_by(value):
                yield name, [self._function(operation.graph, each) for each in called]
            elif not name.startswith("_") and name not in _UNTOLD:
                yield name, value.SerializeToString(deterministic=True)

    def _function(self, graph: Any, name: str) -> str:
        """Return the digest of a function that an operation of a graph calls."""
        if (function := functions_in(graph).get(name)) is None:
            return ""
        inner = function.graph
        if id(inner) not in self._known:
            labels = {id(tensor): f"input {number}" for number, tensor in enumerate(inner.inputs)}
            self._known[id(inner)] = _Digests(inner, labels, self._found, self._known).whole()
        return self._known[id(inner)]


def _may_change(operation: Any) -> bool:
    return operation.type not in READS and any(tensor.dtype == tf.resource for tensor in operation.inputs)
