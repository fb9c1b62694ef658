"""Measuring a split exactly: sums and counts over every example, the short last batch included.

Training measures `val` with it, validate measures `test`.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tapeline.dataset import Dataset
from tapeline.errors import InputError
from tapeline.recipe import Context, Metrics, Recipe


def convert(function: Any) -> Any:
    """Return a user's function as AutoGraph sees it when called in a graph, so that Python `if` and `for` work."""
    autograph = tf.__internal__.autograph
    return autograph.tf_convert(function, autograph.control_status_ctx())


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


class Evaluation:
    """One recipe's `eval_step` over one split.

    The state is not changed: seed generators are set from `key`, and what eval_step assigned would be found by
    the contract test.
    """

    def __init__(
        self, recipe: Recipe, dataset: Dataset, split: str, *, batch_size: int, key: tf.Tensor, eager: bool = False
    ) -> None:
        self._recipe, self._dataset, self._split = recipe, dataset, split
        self._size = min(batch_size, dataset.examples(split))
        self._columns = {name: dataset.column(split, name) for name in dataset.features}
        self._key = key
        self._names: list[str] = []
        self._measure = self._step if eager else tf.function(self._step)

    def __call__(self) -> dict[str, float]:
        """Return the metrics' exact means over the split, with what `evaluate` adds."""
        totals: NDArray[np.float64] | float = 0.0
        examples = self._dataset.examples(self._split)
        for number, start in enumerate(range(0, examples, self._size)):
            batch = {name: tf.constant(column[start : start + self._size]) for name, column in self._columns.items()}
            totals = totals + self._measure(batch, tf.constant(number, tf.int64)).numpy()
        measured = means(self._names, np.asarray(totals))
        return {**measured, **{name: float(value) for name, value in self._recipe.evaluate(self._dataset).items()}}

    def _step(self, batch: Mapping[str, tf.Tensor], number: tf.Tensor) -> tf.Tensor:
        step = self._recipe.eval_step if tf.executing_eagerly() else convert(self._recipe.eval_step)
        self._names, totals = sums_and_counts(step(batch, Context(number, self._key)))
        return totals
