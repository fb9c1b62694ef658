"""A recipe's state in Python: attributes at any depth, its module's globals, and the global random generators.

No checkpoint holds any of it. Where Python runs at each step or validation (`compile: eager`, `evaluate`), a change to
it would make a resumed run differ, so all of it is compared before and after. In a graph Python runs once, when the
step is traced; what it changes then becomes a constant, the same at each start. There only public attributes are
compared, because a recipe's author would expect them to change at each step.
"""

import random
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tapeline.runtime.errors import InputError, NotRepeatable
from tapeline.runtime.keras_private import layers_in

_PLAIN = (bool, int, float, complex, str, bytes, type(None), np.generic, np.dtype, tf.DType, Path, slice, range)
_TRACKED = (tf.Variable, keras.Variable, keras.optimizers.Optimizer, tf.lookup.StaticHashTable)
_OWN = ("params", "features", "_transforms", "batch_size", "updated")
"""Attributes that the engine sets."""

_TRACED = "a tensor of a traced step"

State = Mapping[str, str]
"""Place of a value, as the recipe's author would write it → the value, as a short text or a digest."""


def look(recipe: Any, *, generators: bool = True) -> State:
    """Return the Python state reachable from the recipe.

    generators: include the states of Python's and NumPy's global random generators.
    Raises `InputError` for an iterator, whose position is hidden: a generator, an open file, a tf.data iterator.
    """
    found: dict[str, str] = {}
    seen: dict[int, Any] = {}  # keeps the objects alive, so that no `id` is reused meanwhile
    for name, value in vars(recipe).items():
        if name not in _OWN:
            _look(f"self.{name}", value, found, seen)
    module = sys.modules.get(type(recipe).__module__)
    for kind in type(recipe).__mro__:
        if kind.__module__ == type(recipe).__module__:
            _look_into_class(kind, found, seen)
    for name, value in vars(module).items() if module else ():
        if not name.startswith("__"):
            _look(name, value, found, seen)
    if generators:
        found["Python's random"] = _digest(repr(random.getstate()).encode())
        found["np.random"] = _digest(repr(np.random.get_state(legacy=False)).encode())
    return found


def attributes(recipe: Any) -> State:
    """Return the plain values in a recipe's public attributes, including those in lists and dicts."""
    found: dict[str, str] = {}

    def collect(path: str, value: Any) -> None:
        if isinstance(value, _PLAIN):
            found[path] = _text(value)
        elif isinstance(value, (Mapping, list, tuple)):
            found[path] = _size(value)
            for name, item in _parts(path, value):
                collect(name, item)

    for name, value in vars(recipe).items():
        if not name.startswith("_") and name not in _OWN:
            collect(f"self.{name}", value)
    return found


def check_traced(before: State, recipe: Any) -> None:
    """Raise `InputError` naming a public attribute that tracing `train_step` changed. before: from `attributes`."""
    if changed := difference(before, attributes(recipe)):
        raise InputError(
            f"train_step changes the Python attribute {changed}, which happens once, when it is traced: make it a "
            f"tf.Variable, or derive it from context.step"
        )


class Watch:
    """Checks that a recipe's Python state is unchanged since this object was created."""

    def __init__(self, recipe: Any, where: str, *, generators: bool = True) -> None:
        self._recipe, self._where, self._generators = recipe, where, generators
        self._before = look(recipe, generators=generators)
        if leaked := [path for path, said in self._before.items() if said == _TRACED and generators]:
            raise InputError(
                f"{where} keeps {leaked[0]}, a tensor of the step that made it, which no checkpoint holds: make it a "
                f"tf.Variable that is an attribute of the recipe"
            )

    def __call__(self) -> None:
        """Raise `NotRepeatable` naming what has changed."""
        if changed := difference(self._before, look(self._recipe, generators=self._generators)):
            raise NotRepeatable(
                f"{self._where} changes {changed} in Python, where no checkpoint holds it: make it a tf.Variable that "
                f"is an attribute of the recipe, or derive it from context.step or a fixed seed"
            )


def difference(before: State, after: State) -> str:
    """Return the first place where two states differ, with both values; "" if they are equal."""
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name, "absent"), after.get(name, "absent")
        if old != new:
            return f"{name} ({old} → {new})"
    return ""


def _look_into_class(kind: type, found: dict[str, str], seen: dict[int, Any]) -> None:
    for name, value in vars(kind).items():
        if not name.startswith("__") and not isinstance(value, (property, classmethod, staticmethod, type)):
            _look(f"{kind.__name__}.{name}", value, found, seen)


def _look(path: str, value: Any, found: dict[str, str], seen: dict[int, Any]) -> None:
    if isinstance(value, _PLAIN):
        found[path] = _text(value)
        return
    if id(value) in seen or isinstance(value, (*_TRACKED, ModuleType, BuiltinFunctionType)):
        return
    seen[id(value)] = value
    if isinstance(value, type):
        if value.__module__.startswith("tapeline_recipe_"):
            _look_into_class(value, found, seen)
    elif isinstance(value, np.ndarray):
        found[path] = _digest(repr(value.tolist()).encode() if value.dtype == object else value.tobytes())
    elif tf.is_tensor(value):
        if not hasattr(value, "numpy"):
            found[path] = _TRACED
        elif value.dtype not in (tf.resource, tf.variant):
            found[path] = _digest(repr(value.numpy()).encode() if value.dtype == tf.string else value.numpy().tobytes())
    elif isinstance(value, np.random.Generator):
        found[path] = _digest(repr(value.bit_generator.state).encode())
    elif isinstance(value, np.random.RandomState):
        found[path] = _digest(repr(value.get_state(legacy=False)).encode())
    elif isinstance(value, random.Random):
        found[path] = _digest(repr(value.getstate()).encode())
    elif hasattr(value, "__next__"):
        raise InputError(
            f"{path} is an iterator ({type(value).__name__}), whose position no checkpoint holds: derive what it "
            f"yields from context.step, or make it a column of the dataset"
        )
    else:
        for name, item in _parts(path, value):
            _look(name, item, found, seen)
        if isinstance(value, (Mapping, list, tuple, set, frozenset, deque)):
            found[path] = _size(value)


def _parts(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parts of an object, each with its place."""
    if isinstance(value, Mapping):
        yield from ((f"{path}[{key!r}]", item) for key, item in list(value.items()))
    elif isinstance(value, (set, frozenset)):
        yield f"{path}'s items", "".join(sorted(map(repr, value)))
    elif isinstance(value, (list, tuple, deque)):
        yield from ((f"{path}[{number}]", item) for number, item in enumerate(value))
    elif isinstance(value, MethodType):
        yield path, value.__self__
        yield path, value.__func__
    elif isinstance(value, FunctionType):
        if value.__module__ is None or not _is_foreign(value.__module__):
            yield from ((f"a default argument of {path}", item) for item in value.__defaults__ or ())
            yield from ((f"a default argument of {path}", item) for item in (value.__kwdefaults__ or {}).values())
            yield from ((f"{path}.{name}", item) for name, item in vars(value).items())
            for cell in value.__closure__ or ():
                if cell != type(cell)():  # an empty cell has no contents
                    yield f"a closure variable of {path}", cell.cell_contents
    elif isinstance(value, keras.Layer):
        if not _is_foreign(type(value).__module__):
            known = vars(keras.Layer())
            yield from ((f"{path}.{n}", v) for n, v in vars(value).items() if n not in known and not n.startswith("_"))
        yield from ((f"{path}.{layer.name}", layer) for layer in layers_in(value, include_self=False))
    elif not _is_foreign(type(value).__module__) or type(value).__module__ in ("types", "itertools", "collections"):
        own = getattr(value, "__dict__", {})
        slots = (name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ()) if name != "__dict__")
        yield from ((f"{path}.{name}", item) for name, item in own.items() if not name.startswith("_self_"))
        yield from ((f"{path}.{name}", getattr(value, name)) for name in slots if hasattr(value, name))


_FOREIGN = ("tapeline.", "keras", "tensorflow", "numpy", "builtins", "functools", "contextlib", "abc", "typing")


def _is_foreign(module: str) -> bool:
    """Return whether a module belongs to a library, whose internals may change without the recipe's doing."""
    return module.startswith(_FOREIGN) or module.partition(".")[0] in sys.stdlib_module_names - {"types", "__main__"}


def _text(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else _digest(text.encode())


def _size(value: Any) -> str:
    return f"{type(value).__name__} of {len(value)}"


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=8).hexdigest()
