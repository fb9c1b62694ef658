"""Check examples, from any source, before any of them is written."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapeline.dataset.columns import Feature
from tapeline.ingest.source import Examples
from tapeline.runtime.errors import InputError

LARGEST = 1e150
"""Squares of float64 numbers up to this one can be summed; it is beyond float32."""


def check(examples: Examples, features: Mapping[str, Feature]) -> None:
    """Raise `InputError` for a wrong shape or dtype, a label outside its classes, or a non-finite value."""
    for name, feature in features.items():
        values = examples.columns[name]
        if values.shape[1:] != feature.shape or values.dtype != np.dtype(feature.dtype):
            raise InputError(
                f"feature {name!r} has {values.dtype}{values.shape[1:]} in {examples.split} example {examples.keys[0]} "
                f"but {feature.dtype}{feature.shape} in the dataset: all examples must have the same shape and dtype"
            )
        if feature.classes:
            wrong = (values < 0) | (values >= len(feature.classes))
            _refuse_any(wrong, examples, name, class_rule(len(feature.classes)))
        elif values.dtype.kind == "f":
            _refuse_any(unusable(values), examples, name, float_rule(values.dtype))


def _refuse_any(wrong: NDArray[np.bool_], examples: Examples, name: str, rule: str) -> None:
    if not wrong.any():
        return
    values, place = examples.columns[name], int(np.argmax(wrong))
    key = examples.keys[place // (wrong.size // len(wrong))]
    raise bad_value(name, values.flat[place], f"{examples.split} example {key}", rule)


def unusable(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Return for each float whether it is not finite, or so large that the standard deviation would not be."""
    usable: NDArray[np.bool_] = np.isfinite(values) if values.dtype != np.float64 else np.abs(values) <= LARGEST
    return ~usable


def float_rule(dtype: Any) -> str:
    """Return what holds for a float of this dtype."""
    within = f", and between -{LARGEST:g} and {LARGEST:g}" if dtype == np.float64 else ""
    return f"a feature must be finite as {np.dtype(dtype).name}{within}"


def class_rule(count: int) -> str:
    """Return what holds for a label of so many classes."""
    return f"a label must be a class id from 0 to {count - 1}"


def bad_value(name: str, value: object, example: str, rule: str) -> InputError:
    """Return the error for a feature's value in an example, such as `train example 3`, that breaks a rule."""
    return InputError(
        f"feature {name!r} is {value} in {example}: {rule}; fix it, or leave out the example or its split"
    )
