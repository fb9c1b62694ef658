"""Every variable that a recipe holds, by name; and writing and reading them as one TensorFlow bundle.

A recipe may keep its models and optimizers in any attribute, in lists, dicts and objects of its own. The walk
finds them all; `tapeline.train.completeness` proves, from the traced loop, that it did.
"""

import errno
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType, MethodType, ModuleType
from typing import Any

import keras
import tensorflow as tf

from tapeline.errors import InputError, RunError

BUNDLE = "weights"
DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES)
"""The disk's fault, not the recipe's or TensorFlow's, whose own errors only have them as text."""
_LEAVES = (str, bytes, int, float, complex, bool, type(None), type, FunctionType, MethodType, ModuleType, tf.Tensor)


@dataclass(frozen=True)
class Variables:
    """A recipe's variables by name, in three roles. The order is that of the recipe's attributes."""

    weights: dict[str, tf.Variable] = field(default_factory=dict)
    """What the models compute with, moving statistics included."""
    optimizers: dict[str, tf.Variable] = field(default_factory=dict)
    """Slots, iterations and learning rates."""
    seeds: dict[str, tf.Variable] = field(default_factory=dict)
    """States of Keras' seed generators, shape (2,)."""

    def all(self) -> dict[str, tf.Variable]:
        """Return all three roles as one mapping."""
        return {**self.weights, **self.optimizers, **self.seeds}


def find(recipe: Any) -> Variables:
    """Return the variables that can be reached from the recipe's attributes, each once."""
    found = Variables()
    seen: set[int] = set()
    for attribute, value in vars(recipe).items():
        for name, variable, role in _walk(value, attribute, seen):
            getattr(found, role)[_unique(name, found.all())] = variable
    return found


def _walk(value: Any, path: str, seen: set[int]) -> Iterator[tuple[str, tf.Variable, str]]:
    """Yield (name, variable, role) below one object; `seen` holds the identities already visited."""
    if isinstance(value, _LEAVES) or id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, tf.Variable):
        yield path, value, "weights"
    elif isinstance(value, keras.Variable):
        yield from _keras_variable(value, path, seen)
    elif isinstance(value, keras.optimizers.Optimizer):
        for variable in value.variables:
            seen.add(id(variable.value))
            yield f"{path}/{variable.path}", variable.value, "optimizers"
    elif isinstance(value, keras.Layer):
        for variable in value.variables:
            yield from _keras_variable(variable, f"{path}/{variable.path}", seen)
        for child in value._flatten_layers(include_self=True):
            for name, own in vars(child).items():
                if isinstance(own, (tf.Variable, tf.Module)) and not isinstance(own, keras.Layer):
                    yield from _walk(own, f"{path}/{child.name}/{name}", seen)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _walk(item, f"{path}/{key}", seen)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for index, item in enumerate(value):
            yield from _walk(item, f"{path}/{index}", seen)
    elif hasattr(value, "__dict__"):
        for name, item in vars(value).items():
            if not name.startswith("_self_"):  # TensorFlow's own bookkeeping in every tf.Module
                yield from _walk(item, f"{path}/{name.lstrip('_')}", seen)


def _keras_variable(variable: Any, path: str, seen: set[int]) -> Iterator[tuple[str, tf.Variable, str]]:
    raw = variable.value
    if id(raw) in seen:
        return
    seen |= {id(variable), id(raw)}
    is_seed = variable.name == "seed_generator_state" and tuple(variable.shape) == (2,)
    yield path, raw, "seeds" if is_seed else "weights"


def _unique(name: str, taken: Mapping[str, Any]) -> str:
    if name not in taken:
        return name
    return next(numbered for n in range(2, len(taken) + 3) if (numbered := f"{name}#{n}") not in taken)


def snapshot(variables: Mapping[str, tf.Variable]) -> dict[str, tf.Tensor]:
    """Return the values as they are now. Copy-on-write: nothing is copied until a variable changes."""
    read = tf.raw_ops.ReadVariableOp  # half the time of `read_value`, between every two loops
    return {name: read(resource=variable.handle, dtype=variable.dtype) for name, variable in variables.items()}


def assign(variables: Mapping[str, tf.Variable], values: Mapping[str, tf.Tensor]) -> None:
    """Set every variable. The names must be the same on both sides."""
    assert variables.keys() == values.keys()
    for name, variable in variables.items():
        variable.assign(values[name])


def write_bundle(prefix: Path, values: Mapping[str, tf.Tensor]) -> None:
    """Write named tensors as `<prefix>.index` and `<prefix>.data-…`; the same bytes for the same values."""
    names = sorted(values)
    prefix.parent.mkdir(parents=True, exist_ok=True)
    try:
        tf.raw_ops.SaveV2(
            prefix=str(prefix),
            tensor_names=names,
            shape_and_slices=[""] * len(names),
            tensors=[values[n] for n in names],
        )
    except tf.errors.OpError as error:
        for number in DISK_ERRORS:
            if os.strerror(number) in error.message:
                raise OSError(number, os.strerror(number), str(prefix)) from None
        raise RunError(f"{prefix} could not be written: {error.message.splitlines()[0]}") from None


def read_bundle(prefix: Path, expected: Mapping[str, tf.Variable]) -> dict[str, tf.Tensor]:
    """Return the tensors of a bundle. It must hold exactly the expected names, shapes and dtypes.

    Raises `InputError` naming the first difference; nothing is ever restored in part.
    """
    try:
        stored = tf.train.load_checkpoint(str(prefix))
        shapes, dtypes = stored.get_variable_to_shape_map(), stored.get_variable_to_dtype_map()
    except (tf.errors.OpError, ValueError) as error:
        raise InputError(f"{prefix} is not readable: {str(error).splitlines()[0]}") from None
    for name in sorted(expected.keys() | shapes.keys()):
        if name not in shapes:
            raise InputError(f"{prefix} has no {name}, which the recipe has: train again")
        if name not in expected:
            raise InputError(f"{prefix} has {name}, which the recipe has not: train again")
        variable = expected[name]
        if list(shapes[name]) != variable.shape.as_list() or dtypes[name] != variable.dtype:
            raise InputError(
                f"{prefix}: {name} is {dtypes[name].name}{list(shapes[name])}, the recipe's is "
                f"{variable.dtype.name}{variable.shape.as_list()}: train again"
            )
    names = list(expected)
    values = tf.raw_ops.RestoreV2(
        prefix=str(prefix),
        tensor_names=names,
        shape_and_slices=[""] * len(names),
        dtypes=[expected[name].dtype for name in names],
    )
    return dict(zip(names, values, strict=True))


def layers(value: Any, seen: set[int] | None = None) -> Iterator[keras.Layer]:
    """Yield every Keras layer that can be reached from a recipe's attributes, nested ones too."""
    seen = set() if seen is None else seen
    if isinstance(value, _LEAVES) or id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, keras.Layer):
        yield from value._flatten_layers()
    elif isinstance(value, keras.optimizers.Optimizer | tf.Variable | keras.Variable):
        return
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from layers(item, seen)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for item in value:
            yield from layers(item, seen)
    elif hasattr(value, "__dict__"):
        for item in vars(value).values():
            yield from layers(item, seen)
