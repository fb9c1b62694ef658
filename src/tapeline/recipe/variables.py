"""Find every variable that a recipe holds, by name.

A recipe may keep its models and optimizers in any attributes, lists, dicts and its own objects. The walk finds them
all; `tapeline.train.checks.completeness` verifies this from the traced loop.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from types import FunctionType, MethodType, ModuleType
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tapeline.runtime.errors import InputError
from tapeline.runtime.keras_private import METRICS, global_seed_state, layers_in, trained_by

LEAVES = (str, bytes, int, float, complex, bool, type(None), type, FunctionType, MethodType, ModuleType, tf.Tensor)
"""Types that the walk through a recipe's attributes does not enter: a module leads to everything in the process."""


@dataclass(frozen=True)
class Variables:
    """A recipe's variables by name, in three roles, in the order of the recipe's attributes."""

    weights: dict[str, tf.Variable] = field(default_factory=dict)
    """The models' variables, including moving statistics."""
    optimizers: dict[str, tf.Variable] = field(default_factory=dict)
    """Slots, iterations and learning rates."""
    seeds: dict[str, tf.Variable] = field(default_factory=dict)
    """States of Keras' seed generators, shape (2,)."""
    generators: dict[str, keras.Variable] = field(default_factory=dict)
    """The same states as Keras variables."""

    def all(self) -> dict[str, tf.Variable]:
        """Return all three roles as one mapping."""
        return {**self.weights, **self.optimizers, **self.seeds}


def find(recipe: Any) -> Variables:
    """Return the variables reachable from the recipe's attributes, each once; the state of `keras.random` comes last.

    Raises `InputError` for a set that holds variables, because its order differs between processes.
    """
    found = Variables()
    seen: set[int] = set()
    for attribute, value in vars(recipe).items():
        for name, variable, role in _walk(value, attribute, seen):
            _add(found, name, variable, role)
    state = global_seed_state()
    if state is not None and id(state.value) not in seen:
        _add(found, "keras.random", state, "seeds")
    return found


def _add(found: Variables, name: str, variable: Any, role: str) -> None:
    name = _unique(name, found.all())
    if isinstance(variable, keras.Variable):
        found.generators[name] = variable
        variable = variable.value
    getattr(found, role)[name] = variable


def tables(recipe: Any) -> dict[str, Any]:
    """Return the immutable lookup tables reachable from the recipe's attributes, by place."""
    found: dict[str, Any] = {}
    seen: set[int] = set()

    def walk(path: str, value: Any) -> None:
        if isinstance(value, (*LEAVES, tf.Variable, keras.Variable, keras.optimizers.Optimizer)) or id(value) in seen:
            return
        seen.add(id(value))
        if isinstance(value, tf.lookup.StaticHashTable):
            found[path] = value
        elif isinstance(value, Mapping):
            for key, item in value.items():
                walk(f"{path}[{key!r}]", item)
        elif isinstance(value, (*_LISTS, *SETS)):
            for number, item in enumerate(value):
                walk(f"{path}[{number}]", item)
        else:
            for name, item in sorted(_attributes(value).items(), key=lambda part: part[0].startswith("_self_")):
                walk(f"{path}.{name}", item)  # TensorFlow's bookkeeping comes last: its names are no author's

    for name, value in vars(recipe).items():
        walk(f"self.{name}", value)
    return found


def _walk(value: Any, path: str, seen: set[int]) -> Iterator[tuple[str, Any, str]]:
    """Yield (name, variable, role) below one object; `seen` holds the `id`s already visited.

    The variable is a `tf.Variable`, but a `keras.Variable` for seeds.
    """
    if isinstance(value, LEAVES) or id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, tf.Variable):
        yield path, value, "weights"
    elif isinstance(value, keras.Variable):
        yield from _keras_variable(value, path, seen)
    elif isinstance(value, keras.optimizers.Optimizer):
        for variable in value.variables:
            if id(variable.value) not in seen:
                seen.add(id(variable.value))
                yield f"{path}/{variable.path}", variable.value, "optimizers"
        trained = set(map(id, trained_by(value)))  # weights, which an own class may have in a list too
        for name, own in _own(vars(value)):
            bookkeeping = name.startswith("_self_")  # TensorFlow's
            if not bookkeeping and id(own) not in trained and not isinstance(own, keras.Variable):
                found = _walk(own, f"{path}/{name}", seen)
                yield from ((inside, variable, "optimizers") for inside, variable, _ in found)
    elif isinstance(value, keras.Layer):
        for variable in value.variables:
            yield from _keras_variable(variable, f"{path}/{variable.path}", seen)
        for child in layers_in(value):
            for name, own in _own(vars(child)):
                yield from _walk(own, f"{path}/{child.name}/{name}", seen)
    elif isinstance(value, Mapping):
        for place, (key, item) in enumerate(value.items()):
            yield from _walk(item, f"{path}/{key if _is_plain(key) else place}", seen)
    elif isinstance(value, _LISTS):
        for index, item in enumerate(value):
            yield from _walk(item, f"{path}/{index}", seen)
    elif isinstance(value, SETS):
        for item in value:
            for name, *_ in _walk(item, "", seen):
                raise InputError(
                    f"self.{path} is a {type(value).__name__} that holds {name.strip('/') or 'a variable'}: its order "
                    "differs between processes, so its variables could not be told apart; make it a list or a dict"
                )
    else:
        for name, item in _attributes(value).items():
            if not name.startswith("_self_"):  # TensorFlow's bookkeeping in every tf.Module
                yield from _walk(item, f"{path}/{name.lstrip('_')}", seen)


_LISTS = (list, tuple, deque)
SETS = (set, frozenset)
COLLECTIONS = (Mapping, *_LISTS, *SETS)


def children(value: Any) -> list[Any]:
    """Return what an object holds: a mapping's values, what is in a list or a set, else what it has by name."""
    if isinstance(value, Mapping):
        return list(value.values())
    return list(value) if isinstance(value, COLLECTIONS) else list(_attributes(value).values())


def _attributes(value: Any) -> dict[str, Any]:
    """Return what an object has by name: attributes, slots, and what a partial function is called with."""
    given = {"func": value.func, "args": value.args, "keywords": value.keywords} if isinstance(value, partial) else {}
    return {**getattr(value, "__dict__", {}), **slots(value), **given}


def slots(value: Any) -> dict[str, Any]:
    """Return what is in the slots of an object's classes, without those that it has for itself."""
    declared = (vars(kind).get("__slots__", ()) for kind in type(value).__mro__)
    names = (name for one in declared for name in ([one] if isinstance(one, str) else one))
    return {name: getattr(value, name) for name in names if not name.startswith("__") and hasattr(value, name)}


def _own(attributes: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield what a layer or an optimizer has, in attributes or in lists and dicts of them, that may hold variables."""
    for name, value in attributes.items():
        if name in METRICS:  # the author's are under other names, too
            continue
        for path, own in _inside(value, name):
            if isinstance(own, _HOLDERS) and not isinstance(own, keras.Layer):
                yield path, own


_OF_OPTIMIZERS = (keras.optimizers.Optimizer, keras.optimizers.schedules.LearningRateSchedule)
_HOLDERS = (tf.Variable, keras.Variable, tf.Module, keras.Metric, *_OF_OPTIMIZERS)


def _inside(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield a value, or all that lists and dicts hold at any depth, with its place."""
    if isinstance(value, _LISTS):
        for place, item in enumerate(value):
            yield from _inside(item, f"{path}/{place}")
    elif isinstance(value, Mapping):
        for place, (key, item) in enumerate(value.items()):
            yield from _inside(item, f"{path}/{key if _is_plain(key) else place}")
    else:
        yield path, value


def _is_plain(key: Any) -> bool:
    """Return whether a key has the same text in each process: that of another object has its address or its values."""
    if isinstance(key, tuple):
        return all(map(_is_plain, key))
    return key is None or isinstance(key, (str, bytes, int, float, Enum, np.generic))


def _keras_variable(variable: Any, path: str, seen: set[int]) -> Iterator[tuple[str, Any, str]]:
    raw = variable.value
    if id(raw) in seen:
        return
    seen |= {id(variable), id(raw)}
    is_seed = variable.name == "seed_generator_state" and tuple(variable.shape) == (2,)
    yield (path, variable, "seeds") if is_seed else (path, raw, "weights")


def _unique(name: str, taken: Mapping[str, Any]) -> str:
    if name not in taken:
        return name
    return next(numbered for n in range(2, len(taken) + 3) if (numbered := f"{name}#{n}") not in taken)


def snapshot(variables: Mapping[str, tf.Variable]) -> dict[str, tf.Tensor]:
    """Return the current values. Copy-on-write: nothing is copied until a variable changes."""
    read = tf.raw_ops.ReadVariableOp  # takes half the time of `read_value`; runs between loops
    return {name: read(resource=variable.handle, dtype=variable.dtype) for name, variable in variables.items()}


def bits(variables: Mapping[str, tf.Variable]) -> list[bytes]:
    """Return the `content` of every variable, in order."""
    return [content(value) for value in snapshot(variables).values()]


def content(value: tf.Tensor) -> bytes:
    """Return a tensor's bytes, to compare; of texts, which are objects in NumPy, their list as text."""
    array = np.asarray(value.numpy())
    return repr(array.tolist()).encode() if value.dtype == tf.string else array.tobytes()


def assign(variables: Mapping[str, tf.Variable], values: Mapping[str, tf.Tensor]) -> None:
    """Set every variable. Both mappings must have the same names."""
    assert variables.keys() == values.keys()
    for name, variable in variables.items():
        variable.assign(values[name])


def layers(value: Any, seen: set[int] | None = None) -> Iterator[keras.Layer]:
    """Yield every Keras layer reachable from a recipe's attributes, including nested ones."""
    seen = set() if seen is None else seen
    if isinstance(value, LEAVES) or id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, keras.Layer):
        yield from layers_in(value)
    elif isinstance(value, keras.optimizers.Optimizer | tf.Variable | keras.Variable):
        return
    else:
        for item in children(value):
            yield from layers(item, seen)
