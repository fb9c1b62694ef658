"""No non-finite value in any state: what to look at, and how to name what was found.

Nothing is checked inside the step (that costs 13 %): a loop's result is looked at when it ends. If it is bad,
the engine goes back to the snapshot and replays in shorter loops until one step is left, which it skips.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray


def is_finite(values: Sequence[tf.Tensor | tf.Variable]) -> tf.Tensor:
    """Return whether every number is finite, a bool scalar. Graph-traceable: a loop asks once, at its end."""
    return tf.reduce_all([tf.reduce_all(tf.math.is_finite(value)) for value in values])


def describe(variables: Mapping[str, tf.Variable], metrics: Sequence[str], table: NDArray[np.float64]) -> str:
    """Name the first metric, or else the first variable, that is not finite."""
    for name, (total, _) in zip(metrics, table[0], strict=True):
        if not math.isfinite(total):
            return f"{name} is {total}"
    for name, variable in variables.items():
        if variable.dtype.is_floating and not bool(tf.reduce_all(tf.math.is_finite(variable))):
            return f"{name} has a non-finite value"
    return "a metric's sum is not finite"
