"""What Python objects hold that a recipe reaches: attributes at any depth, closures, its module's globals.

seen = Look(recipe)
seen.own["self.net.rate"]       # Found("0.1")
"""

import random
import sys
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, time, timedelta, tzinfo
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import cache, partial
from hashlib import blake2b
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any
from uuid import UUID

import keras
import numpy as np
import tensorflow as tf

from tapeline.recipe.contract import SET_BY_ENGINE
from tapeline.recipe.loading import MODULE
from tapeline.recipe.variables import content, slots
from tapeline.runtime.keras_private import layers_in
from tapeline.train.checks.project_code import is_foreign, is_foreign_function, is_of_project, names_in

_PLAIN = (
    *(bool, int, float, complex, str, bytes, type(None), slice, range, Path, Enum, UUID),
    *(Decimal, Fraction, date, time, timedelta, tzinfo, np.generic, np.dtype, tf.DType),
)
_KERAS = (keras.Layer, keras.optimizers.Optimizer)
_SINGLE = (tf.Variable, keras.Variable, tf.lookup.StaticHashTable, BuiltinFunctionType, ModuleType, type, *_KERAS)
"""Of these it matters which one a name refers to, also when another is like it."""
_CONTAINERS = (Mapping, list, tuple, set, frozenset, deque)
_NO_TENSORS = (tf.Variable, keras.Variable, *_CONTAINERS)
"""Not asked whether they are tensors: a dict with items as attributes may raise anything."""
LARGE = 2**20
"""Bytes of an array above which a light look does not read it."""
MANY = 10_000
"""Items of a container above which a light look does not enter it."""
TRACED = "a tensor of a traced step"


@dataclass(frozen=True)
class Found:
    """What is at a place: a text or a digest, and the object itself where it matters which one it is.

    Holding the object keeps another one from getting its address.
    """

    text: str
    which: Any = None
    kind: str = ""
    """`size`: how many items a container has. `number`: a plain number."""

    def is_like(self, other: "Found | None") -> bool:
        """Return whether nothing has changed from one to the other."""
        return other is not None and self.text == other.text and self.which is other.which


class Look:
    """The Python state reachable from a recipe, as one look finds it.

    traced: only what tracing may not change, below public names. light: of tensors and large arrays which one a name
    refers to, not its content. but: objects to leave out.
    """

    def __init__(self, recipe: Any, *, traced: bool = False, light: bool = False, but: Sequence[Any] = ()) -> None:
        self.own: dict[str, Found] = {}
        """What the recipe's attributes hold, in containers too."""
        self.inner: dict[str, Found] = {}
        """What objects, layers, optimizers, classes and modules hold; in a trace also which ones they are."""
        self._traced, self._light = traced, light
        # keeps objects alive, so that no `id` is reused meanwhile
        self._seen: dict[int, Any] = {id(one): one for one in (recipe, *but)}
        self.iterators: list[tuple[str, str]] = []
        """Place and type of each iterator, whose position is hidden."""
        for name, value in self._attributes(recipe).items():
            if name not in SET_BY_ENGINE and not (traced and name.startswith("_")):
                self._at(f"self.{name}", value, self.own)
        self._classes(recipe)
        if module := sys.modules.get(type(recipe).__module__):
            self._names(vars(module))

    def _attributes(self, value: Any) -> dict[str, Any]:
        """Return what an object holds, and the plain values of its classes that are the project's: it may replace them.

        A trace may put a value where there was none.
        """
        own = getattr(value, "__dict__", {})
        if self._traced:
            return dict(own)
        classes = [kind for kind in reversed(type(value).__mro__) if is_of_project(kind.__module__)]
        shared = {name: item for kind in classes for name, item in vars(kind).items()}
        plain = {name: item for name, item in shared.items() if isinstance(item, _PLAIN) and not name.startswith("__")}
        return {**plain, **own}

    def _names(self, names: Mapping[str, Any], path: str = "") -> None:
        hidden = "_" if self._traced else "__"
        for name, value in list(names.items()):
            if not name.startswith(hidden):
                self._at(f"{path}{name}", value, self.inner)

    def _classes(self, value: Any) -> None:
        """Look into the project's classes that an object is of."""
        for kind in type(value).__mro__:
            self._at(kind.__name__, kind, self.inner)

    def _at(self, path: str, value: Any, found: dict[str, Found]) -> None:
        if isinstance(value, _PLAIN):
            is_number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
            is_large = self._light and isinstance(value, (str, bytes)) and len(value) > LARGE
            found[path] = (
                Found(_name(value), value) if is_large else Found(_text(value), kind="number" if is_number else "")
            )
            return
        if look := next((look for fits, look in _VALUES if fits(value)), None):
            look(self, path, value, found)
            return
        is_seen = id(value) in self._seen
        if isinstance(value, _SINGLE) or is_foreign_function(value):
            self._which(path, value, value, found)
        elif is_seen and not self._traced:
            found[path] = Found(_name(value), value)
        if not is_seen:
            self._seen[id(value)] = value
            next(look for fits, look in _OBJECTS if fits(value))(self, path, value, found)

    def _which(self, path: str, value: Any, which: Any, found: dict[str, Found]) -> None:
        """Note which object is at a place; a trace may put one where there was none."""
        (self.inner if self._traced else found)[path] = Found(_name(value), which)

    def _class(self, path: str, value: type, found: dict[str, Found]) -> None:
        if is_of_project(value.__module__):
            unlike = (property, classmethod, staticmethod, type)
            self._names({n: v for n, v in vars(value).items() if not isinstance(v, unlike)}, f"{value.__name__}.")

    def _module(self, path: str, value: ModuleType, found: dict[str, Found]) -> None:
        if is_of_project(value.__name__):
            self._names(vars(value), f"{path}.")

    def _nothing(self, path: str, value: Any, found: dict[str, Found]) -> None:
        """Look no further: a checkpoint has its content, or it has none."""

    def _tensor(self, path: str, value: Any, found: dict[str, Found]) -> None:
        parts = tf.nest.flatten(value, expand_composites=True)
        if self._traced:
            return
        if parts[0] is not value:  # of a ragged or a sparse tensor
            self._container(path, parts, found)
        elif not hasattr(value, "numpy"):
            found[path] = Found(TRACED)
        elif self._light:
            found[path] = Found(_name(value), value)
        elif value.dtype not in (tf.resource, tf.variant):
            found[path] = Found(digest(content(value)))

    def _array(self, path: str, value: Any, found: dict[str, Found]) -> None:
        if self._light and value.nbytes > LARGE:
            found[path] = Found(_name(value), value)
        else:
            found[path] = Found(digest(repr(value.tolist()).encode() if value.dtype == object else value.tobytes()))

    def _iterator(self, path: str, value: Any, found: dict[str, Found]) -> None:
        self.iterators.append((path, type(value).__name__))

    def _function(self, path: str, value: FunctionType, found: dict[str, Found]) -> None:
        if is_foreign_function(value):
            return
        self._which(path, value, value.__code__, found)
        if not self._traced:
            for name, item in _defaults(value).items():
                self._at(f"the default argument {name} of {path}", item, self.inner)
            for name, item in vars(value).items():
                self._at(f"{path}.{name}", item, self.inner)
            for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
                if cell != type(cell)():  # an empty cell has no contents
                    self._at(f"the closure variable {name} of {path}", cell.cell_contents, self.inner)
        if is_of_project(value.__module__ or "") and not value.__module__.startswith(MODULE):
            named = names_in(value.__code__) & value.__globals__.keys()
            self._names({name: value.__globals__[name] for name in sorted(named)}, f"{value.__module__}.")

    def _keras(self, path: str, value: Any, found: dict[str, Found]) -> None:
        """Look at a layer or an optimizer: of Keras' own at plain values and functions under public names.

        Building sets them too, so tracing may change those of a layer that is not built.
        """
        is_own, is_layer = not is_foreign(type(value).__module__), isinstance(value, keras.Layer)
        for name, item in self._attributes(value).items():
            is_public, is_plain = not name.startswith("_"), _is_plain(item)
            if is_own and name not in _bare() and name not in _CACHES:
                asked = is_plain or (is_public and is_layer) or isinstance(item, (*_SINGLE, FunctionType))
            else:
                called = callable(item) and not isinstance(item, keras.Layer)
                asked = is_public and name not in _CACHES and (called or isinstance(item, (*_PLAIN, *_KERAS[1:])))
            if asked and (not self._traced or (is_public and value.built)):
                self._at(f"{path}.{name}", item, self.inner)
        if is_own:
            self._classes(value)
        if is_layer:
            self.inner[f"{path}.trainable"] = Found(_text(value.trainable))
            for layer in layers_in(value, include_self=False):
                self._at(f"{path}.{layer.name}", layer, self.inner)
        else:
            self._at(f"{path}.learning_rate", vars(value).get("_learning_rate"), self.inner)

    def _container(self, path: str, value: Any, found: dict[str, Found]) -> None:
        for name, item in () if self._light and len(value) > MANY else _items(path, value):
            self._at(name, item, found)
        if not (self._traced and found is self.inner and isinstance(value, Mapping)):  # which may be a memo
            found[path] = Found(_size(value), kind="size")

    def _partial(self, path: str, value: Any, found: dict[str, Found]) -> None:
        self._at(path, value.func, found)
        self._at(f"the arguments of {path}", [*value.args, *value.keywords.items()], self.inner)

    def _method(self, path: str, value: MethodType, found: dict[str, Found]) -> None:
        self._at(path, value.__func__, found)
        self._at(f"the object of {path}", value.__self__, self.inner)

    def _object(self, path: str, value: Any, found: dict[str, Found]) -> None:
        is_closed = is_foreign(type(value).__module__) and type(value).__module__ not in _OPEN
        self._which(path, value, type(value), found)
        own = {name: item for name, item in self._attributes(value).items() if not name.startswith("_self_")}
        if is_closed:
            own = {name: item for name, item in own.items() if not name.startswith("_") and _is_plain(item)}
        else:
            own |= slots(value)
            self._classes(value)
        for name, item in own.items():
            if not (self._traced and name.startswith("_")):
                self._at(f"{path}.{name}", item, self.inner)


def _digested(bytes_of: Callable[[Any], bytes]) -> Callable[[Look, str, Any, dict[str, Found]], None]:
    """Return how to look at a value that consists of bytes."""

    def look(_: Look, path: str, value: Any, found: dict[str, Found]) -> None:
        found[path] = Found(digest(bytes_of(value)))

    return look


def _is(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kinds)


_VALUES: tuple[tuple[Callable[[Any], bool], Callable[[Look, str, Any, dict[str, Found]], None]], ...] = (
    (_is(np.ndarray), Look._array),
    (_is(array, bytearray, memoryview), _digested(bytes)),
    (_is(np.random.Generator), _digested(lambda v: repr(v.bit_generator.state).encode())),
    (_is(np.random.RandomState), _digested(lambda v: repr(v.get_state(legacy=False)).encode())),
    (_is(random.Random), _digested(lambda v: repr(v.getstate()).encode())),
    (lambda value: not isinstance(value, _NO_TENSORS) and tf.is_tensor(value), Look._tensor),
    (_is(tuple, frozenset), Look._container),
)
"""Kinds of which only the value matters, each with how it is looked at; the first that fits counts."""
_OBJECTS = (
    (_is(type), Look._class),
    (_is(ModuleType), Look._module),
    (_is(tf.Variable, keras.Variable, tf.lookup.StaticHashTable, BuiltinFunctionType), Look._nothing),
    (lambda value: hasattr(type(value), "__next__"), Look._iterator),
    (_is(FunctionType), Look._function),
    (_is(*_KERAS), Look._keras),
    (_is(*_CONTAINERS), Look._container),
    (_is(partial), Look._partial),
    (_is(MethodType), Look._method),
    (lambda value: True, Look._object),
)
"""Kinds that may be at several places, each with how it is looked at the first time."""


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


def _defaults(function: FunctionType) -> dict[str, Any]:
    """Return the default arguments of a function by name."""
    code, given = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(given) : code.co_argcount]
    return {**dict(zip(names, given, strict=True)), **(function.__kwdefaults__ or {})}


@cache
def _bare() -> frozenset[str]:
    """Return the attributes that each layer, each model and each optimizer has."""
    optimizer = keras.optimizers.Optimizer(0.1, name="bare")
    return frozenset({*vars(keras.Layer(name="bare")), *vars(keras.Model(name="bare")), *vars(optimizer)})


_CACHES = (
    *("built", "predict_function", "test_function", "train_function"),
    *("stop_predicting", "stop_evaluating", "stop_training"),
)
"""What Keras sets when it first needs it."""
_OPEN = ("types", "itertools", "collections")
"""Modules of Python with objects that hold what is given to them."""


def _text(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else digest(text.encode())


def _name(value: Any) -> str:
    """Return what an object is called in a message: by its type, and by its name if it has one for sure."""
    is_named = isinstance(value, (*_SINGLE, FunctionType))
    name = getattr(value, "__name__", None) or getattr(value, "name", None) if is_named else None
    return f"{type(value).__name__} {name}" if name else type(value).__name__


def _size(value: Any) -> str:
    return f"{type(value).__name__} of {len(value)}"


def digest(data: bytes) -> str:
    """Return a short digest, to compare and to show."""
    return blake2b(data, digest_size=8).hexdigest()
