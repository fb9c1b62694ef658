"""A recipe's state in Python: attributes at any depth, its module's globals, and the global random generators.

No checkpoint holds any of it. Where Python runs at each step or validation (`compile: eager`, `evaluate`), a change to
it would make a resumed run differ, so all of it is compared before and after. In a graph Python runs once, when the
step is traced; what it changes then becomes a constant, the same at each start. There only public names are compared,
because a recipe's author would expect what they hold to change at each step.
"""

import random
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from functools import cache
from hashlib import blake2b
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tapeline.runtime import own_modules
from tapeline.runtime.errors import InputError, NotRepeatable
from tapeline.runtime.keras_private import layers_in

_PLAIN = (bool, int, float, complex, str, bytes, type(None), np.generic, np.dtype, tf.DType, Path, slice, range)
_TRACKED = (tf.Variable, keras.Variable, tf.lookup.StaticHashTable)
_CONTAINERS = (Mapping, list, tuple, set, frozenset, deque)
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
    seen = _Look(recipe)
    found = {**seen.inner, **seen.own}
    if generators:
        found["Python's random"] = _digest(repr(random.getstate()).encode())
        found["np.random"] = _digest(repr(np.random.get_state(legacy=False)).encode())
    return found


class Tracing:
    """Checks that tracing a recipe's methods changes nothing under a public name, since this object was created.

    Attributes that appear for the first time (a layer that is built, a memo) do not count as changes.
    """

    def __init__(self, recipe: Any) -> None:
        self._recipe, self._before = recipe, _Look(recipe, traced=True)

    def __call__(self, where: str) -> None:
        """Raise `InputError` naming what has changed. where: the method that was traced."""
        before, after = self._before, _Look(self._recipe, traced=True)
        both = before.inner.keys() & after.inner.keys()
        changed = difference(before.own, after.own) or difference(
            {name: before.inner[name] for name in both}, {name: after.inner[name] for name in both}
        )
        if changed:
            is_flag = changed.partition(" (")[0].endswith(".trainable")
            raise InputError(
                f"{where} changes the Python attribute {changed}, which happens once, when it is traced: "
                f"{_WHEN_TO_TRAIN if is_flag else 'make it a tf.Variable, or derive it from context.step'}"
            )


_WHEN_TO_TRAIN = (
    "set it in build; to train a layer from some step on, multiply its gradients by tf.cast(context.step >= 1000, "
    "tf.float32)"
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


class _Look:
    """The Python state reachable from a recipe, as one look finds it.

    traced: only what tracing may not change, below public names.
    """

    def __init__(self, recipe: Any, *, traced: bool = False) -> None:
        self.own: dict[str, str] = {}
        """What the recipe's attributes hold, in containers too."""
        self.inner: dict[str, str] = {}
        """What objects, layers, optimizers, classes and modules hold."""
        self._traced = traced
        self._seen: dict[int, Any] = {}  # keeps the objects alive, so that no `id` is reused meanwhile
        for name, value in vars(recipe).items():
            if name not in _OWN and not (traced and name.startswith("_")):
                self._at(f"self.{name}", value, self.own)
        self._classes(recipe)
        if module := sys.modules.get(type(recipe).__module__):
            self._names(vars(module))

    def _names(self, names: Mapping[str, Any], path: str = "") -> None:
        hidden = "_" if self._traced else "__"
        for name, value in list(names.items()):
            if not name.startswith(hidden):
                self._at(f"{path}{name}", value, self.inner)

    def _classes(self, value: Any) -> None:
        """Look into the project's classes that an object is of."""
        for kind in type(value).__mro__:
            self._at(kind.__name__, kind, self.inner)

    def _at(self, path: str, value: Any, found: dict[str, str]) -> None:
        if isinstance(value, _PLAIN):
            found[path] = _text(value)
            return
        if id(value) in self._seen or isinstance(value, (*_TRACKED, BuiltinFunctionType)):
            return
        self._seen[id(value)] = value
        if isinstance(value, type):
            if _is_of_project(value.__module__):
                unlike = (property, classmethod, staticmethod, type)
                self._names({n: v for n, v in vars(value).items() if not isinstance(v, unlike)}, f"{value.__name__}.")
        elif isinstance(value, ModuleType):
            if _is_of_project(value.__name__):
                self._names(vars(value), f"{path}.")
        elif isinstance(value, np.ndarray):
            found[path] = _digest(repr(value.tolist()).encode() if value.dtype == object else value.tobytes())
        elif tf.is_tensor(value):
            if not self._traced:
                self._tensor(path, value, found)
        elif isinstance(value, np.random.Generator):
            found[path] = _digest(repr(value.bit_generator.state).encode())
        elif isinstance(value, np.random.RandomState):
            found[path] = _digest(repr(value.get_state(legacy=False)).encode())
        elif isinstance(value, random.Random):
            found[path] = _digest(repr(value.getstate()).encode())
        elif hasattr(value, "__next__"):
            if not self._traced:
                raise InputError(
                    f"{path} is an iterator ({type(value).__name__}), whose position no checkpoint holds: derive what "
                    f"it yields from context.step, or make it a column of the dataset"
                )
        elif isinstance(value, FunctionType):
            self._function(path, value)
        elif isinstance(value, (keras.Layer, keras.optimizers.Optimizer)):
            self._of_keras(path, value)
        elif isinstance(value, _CONTAINERS):
            for name, item in _items(path, value):
                self._at(name, item, found)
            if not (self._traced and found is self.inner and isinstance(value, Mapping)):  # which may be a memo
                found[path] = _size(value)
        else:
            self._object(path, value)

    def _tensor(self, path: str, value: Any, found: dict[str, str]) -> None:
        if not hasattr(value, "numpy"):
            found[path] = _TRACED
        elif value.dtype not in (tf.resource, tf.variant):
            found[path] = _digest(repr(value.numpy()).encode() if value.dtype == tf.string else value.numpy().tobytes())

    def _function(self, path: str, value: FunctionType) -> None:
        if value.__module__ is not None and _is_foreign(value.__module__):
            return
        if not self._traced:
            for item in (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()):
                self._at(f"a default argument of {path}", item, self.inner)
            for name, item in vars(value).items():
                self._at(f"{path}.{name}", item, self.inner)
            for cell in value.__closure__ or ():
                if cell != type(cell)():  # an empty cell has no contents
                    self._at(f"a closure variable of {path}", cell.cell_contents, self.inner)
        if _is_of_project(value.__module__ or "") and not value.__module__.startswith(_RECIPE):
            named = _names_in(value.__code__) & value.__globals__.keys()
            self._names({name: value.__globals__[name] for name in sorted(named)}, f"{value.__module__}.")

    def _of_keras(self, path: str, value: Any) -> None:
        """Look at a layer or an optimizer: of Keras' own only at plain values under public names.

        Building sets them too, so tracing may change those of a layer that is not built.
        """
        is_own, is_layer = not _is_foreign(type(value).__module__), isinstance(value, keras.Layer)
        for name, item in list(vars(value).items()):
            is_public, is_plain = not name.startswith("_"), _is_plain(item)
            if is_own and name not in _bare():
                asked = is_plain or (is_public and is_layer)
            else:
                asked = is_public and name != "built" and isinstance(item, (*_PLAIN, keras.optimizers.Optimizer))
            if asked and (not self._traced or (is_public and value.built)):
                self._at(f"{path}.{name}", item, self.inner)
        if is_own:
            self._classes(value)
        if is_layer:
            self.inner[f"{path}.trainable"] = _text(value.trainable)
            for layer in layers_in(value, include_self=False):
                self._at(f"{path}.{layer.name}", layer, self.inner)
        else:
            self._at(f"{path}.learning_rate", vars(value).get("_learning_rate"), self.inner)

    def _object(self, path: str, value: Any) -> None:
        if isinstance(value, MethodType):
            self._at(path, value.__self__, self.inner)
            self._at(path, value.__func__, self.inner)
        elif not _is_foreign(type(value).__module__) or type(value).__module__ in ("types", "itertools", "collections"):
            own = {name: item for name, item in getattr(value, "__dict__", {}).items() if not name.startswith("_self_")}
            slots = (name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ()))
            own |= {name: getattr(value, name) for name in slots if name != "__dict__" and hasattr(value, name)}
            for name, item in own.items():
                if not (self._traced and name.startswith("_")):
                    self._at(f"{path}.{name}", item, self.inner)
            self._classes(value)


def _items(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the items of a container, each with its place."""
    if isinstance(value, Mapping):
        yield from ((f"{path}[{key!r}]", item) for key, item in list(value.items()))
    elif isinstance(value, (set, frozenset)):
        yield f"{path}'s items", "".join(sorted(map(repr, value)))
    else:
        yield from ((f"{path}[{number}]", item) for number, item in enumerate(value))


def _is_plain(value: Any) -> bool:
    """Return whether a value is plain, an array, or a container of plain values."""
    if isinstance(value, Mapping):
        return all(isinstance(item, _PLAIN) for item in value.values())
    if isinstance(value, _CONTAINERS):
        return all(isinstance(item, _PLAIN) for item in value)
    return isinstance(value, (*_PLAIN, np.ndarray))


def _names_in(code: CodeType) -> set[str]:
    """Return the names that a function's code uses, and that of functions inside of it."""
    inner = (_names_in(part) for part in code.co_consts if isinstance(part, CodeType))
    return {*code.co_names}.union(*inner)


@cache
def _bare() -> frozenset[str]:
    """Return the attributes that each layer and each optimizer has."""
    layer, optimizer = keras.Layer(name="bare"), keras.optimizers.Optimizer(0.1, name="bare")
    return frozenset({*vars(layer), *vars(optimizer)})


_FOREIGN = ("tapeline.", "keras", "tensorflow", "numpy", "builtins", "functools", "contextlib", "abc", "typing")


def _is_foreign(module: str) -> bool:
    """Return whether a module belongs to a library, whose internals may change without the recipe's doing."""
    return module.startswith(_FOREIGN) or module.partition(".")[0] in sys.stdlib_module_names - {"types", "__main__"}


_RECIPE = "tapeline_recipe_"


def _is_of_project(module: str) -> bool:
    """Return whether a module is the recipe's or another one of the project's: its file is in no library's folder."""
    if module.startswith(_RECIPE):
        return True
    file = None if _is_foreign(module) else getattr(sys.modules.get(module), "__file__", None)
    return file is not None and not own_modules.is_library(Path(file).resolve())


def _text(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else _digest(text.encode())


def _size(value: Any) -> str:
    return f"{type(value).__name__} of {len(value)}"


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=8).hexdigest()
