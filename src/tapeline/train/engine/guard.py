"""Find and name non-finite values, so that none stays in the state.

Nothing is checked inside the step (that costs 13 %): a loop's result is checked when it ends. If it is not finite,
the engine restores the snapshot and replays shorter loops until a single step is left, which it skips.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray


def is_finite(values: Sequence[tf.Tensor | tf.Variable]) -> tf.Tensor:
    """Return whether every number is finite, a bool scalar. Graph-traceable: a loop calls this once, at its end."""
    return tf.reduce_all([tf.reduce_all(tf.math.is_finite(part)) for value in values for part in _parts(value)])


def is_guarded(variable: tf.Variable) -> bool:
    """Return whether a variable's numbers can be other than finite."""
    return bool(variable.dtype.is_floating or variable.dtype.is_complex)


def _parts(value: tf.Tensor | tf.Variable) -> list[tf.Tensor | tf.Variable]:
    return [tf.math.real(value), tf.math.imag(value)] if value.dtype.is_complex else [value]


def describe(variables: Mapping[str, tf.Variable], metrics: Sequence[str], table: NDArray[np.float64]) -> str:
    """Return a text that names the first metric, or else the first variable, that is not finite.

    metrics: those of the step, which come first in the table.
    """
    for name, (total, _) in zip(metrics, table[0], strict=False):
        if not math.isfinite(total):
            return f"{name} is {total}"
    first = non_finite(variables)
    return "a metric's sum is not finite" if first is None else f"{first} has a non-finite value"


def non_finite(variables: Mapping[str, tf.Variable]) -> str | None:
    """Return the name of the first variable that is not finite; None if all are."""
    found = (name for name, one in variables.items() if is_guarded(one) and not bool(is_finite([one])))
    return next(found, None)
