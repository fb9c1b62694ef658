"""Metrics as (sum, count): their totals are exact for any batch sizes, unlike means of means."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tapeline.recipe.contract import Metrics
from tapeline.runtime.errors import InputError, what_is


def sums_and_counts(metrics: Metrics, *, of: str = "loss") -> tuple[list[str], tf.Tensor]:
    """Return the sorted metric names and their (sum, count), float64 of shape (metrics, 2).

    of: the method that returned them. Raises `InputError` for anything but a dict, and for a metric that is neither
    per-example nor a (sum, count) pair.
    """
    if not isinstance(metrics, Mapping):
        raise InputError(f"{of} returns {what_is(metrics)}: return a dict of metrics, such as {{'loss': losses}}")
    names = sorted(metrics)
    pairs = [_pair(name, metrics[name]) for name in names]
    if not pairs:
        return names, tf.zeros([0, 2], tf.float64)
    # Few operations, because each costs microseconds in every step of a graph: one cast, and constant counts.
    totals, counts = (tf.cast(tf.stack(column), tf.float64) for column in zip(*pairs, strict=True))
    return names, tf.stack([totals, counts], axis=1)


def _pair(name: str, value: Any) -> tuple[tf.Tensor, Any]:
    """Return (sum, count) in float32; the count is a plain number if it is known when tracing."""
    if isinstance(value, tuple):
        parts = [tf.cast(part, tf.float32) for part in value]
        if len(parts) != 2 or any(part.shape.rank for part in parts):
            shapes = ", ".join(str(part.shape) for part in parts)
            raise InputError(
                f"metric {name!r} is a tuple of shapes {shapes}: return two numbers, such as (tf.reduce_sum(sums), "
                "tf.reduce_sum(counts))"
            )
        total, count = parts
        return total, count
    if isinstance(value, list):  # a pair would count as two examples
        raise InputError(f"metric {name!r} is a list: return a tensor of one value per example, or a pair (sum, count)")
    value = tf.convert_to_tensor(value)
    if value.shape.rank != 1:
        shape = tuple(value.shape)
        raise InputError(f"metric {name!r} has shape {shape}: return one value per example, or a pair (sum, count)")
    known = value.shape[0]
    return tf.reduce_sum(tf.cast(value, tf.float32)), tf.cast(tf.size(value), tf.float32) if known is None else float(
        known
    )


def means(names: list[str], totals: NDArray[np.float64]) -> dict[str, float]:
    """Return sum / count by name, without metrics whose count is 0."""
    return {name: float(total / count) for name, (total, count) in zip(names, totals, strict=True) if count}
