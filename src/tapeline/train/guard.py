"""No non-finite value in any state: what to look at, and how to name what was found.

Nothing is checked inside the step (that costs 13 %): a loop's result is looked at when it ends. If it is bad,
the engine goes back to the snapshot and replays in shorter loops until one step is left, which it skips.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray


@tf.function(reduce_retracing=False)
def _all_finite(tensors: list[tf.Tensor]) -> tf.Tensor:
    return tf.reduce_all([tf.reduce_all(tf.math.is_finite(tensor)) for tensor in tensors])


def is_finite(variables: Mapping[str, tf.Variable], table: NDArray[np.float64]) -> bool:
    """Return whether every metric sum and every floating-point variable is finite."""
    floating = [variable.read_value() for variable in variables.values() if variable.dtype.is_floating]
    return bool(np.isfinite(table).all()) and (not floating or bool(_all_finite(floating)))


def describe(variables: Mapping[str, tf.Variable], metrics: Sequence[str], table: NDArray[np.float64]) -> str:
    """Name the first metric, or else the first variable, that is not finite."""
    for name, (total, _) in zip(metrics, table[0], strict=True):
        if not math.isfinite(total):
            return f"{name} is {total}"
    for name, variable in variables.items():
        if variable.dtype.is_floating and not bool(tf.reduce_all(tf.math.is_finite(variable))):
            return f"{name} has a non-finite value"
    return "a metric's sum is not finite"
