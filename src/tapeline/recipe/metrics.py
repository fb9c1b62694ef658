"""Metrics as (sum, count): added up they stay exact, whatever the batches; never means of means."""

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tapeline.errors import InputError
from tapeline.recipe.contract import Metrics


def sums_and_counts(metrics: Metrics) -> tuple[list[str], tf.Tensor]:
    """Return the metrics' names, sorted, and their (sum, count), float64 of shape (metrics, 2).

    Raises `InputError` for a metric that is neither per-example nor a (sum, count) pair.
    """
    names = sorted(metrics)
    rows = []
    for name in names:
        value = metrics[name]
        if isinstance(value, tuple):
            total, count = value
        else:
            value = tf.convert_to_tensor(value)
            if value.shape.rank != 1:
                shape = tuple(value.shape)
                raise InputError(
                    f"metric {name!r} has shape {shape}: return one value per example, or a pair (sum, count)"
                )
            if value.dtype == tf.bool:
                value = tf.cast(value, tf.float32)
            total, count = tf.reduce_sum(value), tf.size(value)
        rows.append(tf.stack([tf.cast(total, tf.float64), tf.cast(count, tf.float64)]))
    return names, tf.stack(rows) if rows else tf.zeros([0, 2], tf.float64)


def means(names: list[str], totals: NDArray[np.float64]) -> dict[str, float]:
    """Return sum / count by name; a metric that counted nothing is left out."""
    return {name: float(total / count) for name, (total, count) in zip(names, totals, strict=True) if count}
