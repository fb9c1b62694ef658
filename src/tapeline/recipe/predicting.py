"""Run an exported signature over columns: validate records the outputs, and export must reproduce them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tapeline.parsing import arrays
from tapeline.recipe.contract import Columns, Recipe
from tapeline.runtime.errors import InputError, what_is


@dataclass(frozen=True)
class Answer:
    """The type of an output, as traced or as found."""

    dtype: str
    """By its NumPy or TensorFlow name."""
    shape: tuple[int | None, ...] | None
    """With the examples first; None for an axis of any length, and for any number of axes."""


def served(recipe: Recipe, data: Columns) -> dict[str, NDArray[Any]]:
    """Return what a recipe serves for a split's columns. Raises `InputError` for anything but a dict of arrays."""
    found: Any = recipe.served(data)
    if not isinstance(found, Mapping):
        what = what_is(found)
        raise InputError(f"served returns {what}: return a dict from input name to NumPy array")
    for name, values in found.items():
        if not isinstance(values, np.ndarray):
            raise InputError(f"served returns a {type(values).__name__} for {name}: make it a NumPy array")
    return dict(found)


def predictions(
    signature: Callable[..., Mapping[str, tf.Tensor]], given: Columns, batch_size: int
) -> dict[str, NDArray[Any]]:
    """Return a signature's outputs for all given examples, in order, by output name; as `arrays.storable`.

    Raises `InputError` if an input of the signature is not given.
    """
    names = inputs(signature)
    check_given(names, given)
    parts: dict[str, list[NDArray[Any]]] = {}
    for start in range(0, len(given[names[0]]), batch_size):
        batch = [tf.constant(given[name][start : start + batch_size]) for name in names]
        for name, value in signature(*batch).items():
            parts.setdefault(name, []).append(value.numpy())
    return {name: arrays.storable(np.concatenate(values)) for name, values in sorted(parts.items())}


def check_given(names: Iterable[str], given: Iterable[str]) -> None:
    """Raise `InputError` for an input of the signature that `served` does not give."""
    given = list(given)
    if unknown := sorted(set(names) - set(given)):
        raise InputError(
            f"the model takes {', '.join(unknown)}, but gets {', '.join(given) or 'nothing'}: return it from `served`"
        )


def inputs(signature: Any) -> list[str]:
    """Return the input names of a `tf.function`, in the order of its signature."""
    return [spec.name for spec in tf.nest.flatten(signature.input_signature)]
