"""Measuring a split exactly: sums and counts over every example, the short last batch included.

Training measures `val` with it, validate measures `test`.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tapeline.dataset import Dataset
from tapeline.recipe import Context, Recipe
from tapeline.recipe.metrics import means, sums_and_counts


def convert(function: Any) -> Any:
    """Return a user's function as AutoGraph sees it when called in a graph, so that Python `if` and `for` work."""
    autograph = tf.__internal__.autograph
    return autograph.tf_convert(function, autograph.control_status_ctx())


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
