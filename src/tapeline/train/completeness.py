"""Proof, from the traced step, that the checkpoint holds everything that a step can change.

What fails is refused with its name; nothing is ever half saved.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf

from tapeline.errors import InputError

_PLAIN = (bool, int, float, complex, str, bytes, type(None))


def check(traced: Any, tracked: Mapping[str, tf.Variable]) -> None:
    """Check a concrete function of one step.

    Raises `InputError` for a captured variable or other resource that is not tracked, and for a stateful
    random operation, which no checkpoint could repeat.
    """
    known = {id(variable.handle) for variable in tracked.values()}
    names = {id(variable.handle): variable.name for variable in traced.graph.variables}
    for external, _ in traced.graph.captures:
        if external.dtype in (tf.resource, tf.variant) and id(external) not in known:
            name = names.get(id(external)) or getattr(external, "name", None) or "an unnamed resource"
            raise InputError(
                f"train_step changes or reads {name}, which no attribute of the recipe holds, so it could not be "
                f"checkpointed: keep it in an attribute (tables and iterators have no place in a step)"
            )
    for operation in _operations(traced.graph):
        if operation.op_def.is_stateful and "seed" in operation.node_def.attr and "seed2" in operation.node_def.attr:
            raise InputError(
                f"train_step draws from the stateful {operation.type} ({operation.name}), which no checkpoint can "
                f"repeat: use tf.random.stateless_… with context.seed"
            )


def _operations(graph: Any) -> Iterator[Any]:
    yield from graph.get_operations()
    for function in getattr(graph, "_functions", {}).values():
        body = getattr(function, "graph", None)
        if body is not None:
            yield from _operations(body)


def plain_attributes(recipe: Any) -> dict[str, Any]:
    """Return the plain Python values among a recipe's attributes, lists and dicts included."""
    found: dict[str, Any] = {}

    def collect(path: str, value: Any) -> None:
        if isinstance(value, _PLAIN):
            found[path] = value
        elif isinstance(value, Mapping):
            for key, item in value.items():
                collect(f"{path}[{key!r}]", item)
        elif isinstance(value, (list, tuple)):
            found[path] = len(value)
            for index, item in enumerate(value):
                collect(f"{path}[{index}]", item)

    for name, value in vars(recipe).items():
        if not name.startswith("_"):
            collect(name, value)
    return found


def check_unchanged(before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Raise `InputError` naming an attribute that a step changed in Python, where no checkpoint sees it."""
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name, "absent"), after.get(name, "absent")
        if repr(old) != repr(new):
            raise InputError(
                f"train_step changes the Python attribute self.{name} ({old!r} → {new!r}), which happens once, when it "
                f"is traced: make it a tf.Variable, or a function of context.step"
            )
