"""Measuring a split exactly: sums and counts over every example, the short last batch included.

Training measures `val` with it, validate measures `test`.
"""

from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tapeline.dataset import Dataset
from tapeline.recipe import Context, Recipe
from tapeline.recipe.autograph import convert
from tapeline.recipe.metrics import means, sums_and_counts


class Evaluation:
    """One recipe's `eval_step` over one split.

    The state is not changed: what eval_step assigned would be found by the contract test.
    """

    def __init__(
        self, recipe: Recipe, dataset: Dataset, split: str, *, batch_size: int, key: tf.Tensor, eager: bool = False
    ) -> None:
        self._recipe = recipe
        self._examples = dataset.examples(split)
        self._size = min(batch_size, self._examples)
        self._columns = dataset.columns(split)
        self._key = key
        self.names: list[str] = []
        """The metrics' names, in the order of the totals; known after the first call."""
        self._converted = convert(recipe.eval_step)
        self._measure = self.step if eager else tf.function(self.step, autograph=False)

    def __call__(self) -> dict[str, float]:
        """Return the metrics' exact means over the split, with what `evaluate` adds."""
        totals: NDArray[np.float64] | float = 0.0
        for number, start in enumerate(range(0, self._examples, self._size)):
            batch = {name: tf.constant(column[start : start + self._size]) for name, column in self._columns.items()}
            totals = totals + self._measure(batch, tf.constant(number, tf.int64)).numpy()
        measured = means(self.names, np.asarray(totals))
        return {**measured, **{name: float(value) for name, value in self._recipe.evaluate(self._columns).items()}}

    def pictures(self) -> Mapping[str, NDArray[np.uint8]]:
        """Return what the recipe shows."""
        return self._recipe.pictures(self._columns)

    def in_graph(self) -> Callable[[], tf.Tensor]:
        """Return a graph-traceable function of the same totals, float64 of shape (metrics, 2), from columns in RAM.

        It adds the same batches in the same order. `evaluate` is plain Python and has no place in it.
        """
        columns = {name: tf.constant(column) for name, column in self._columns.items()}
        whole, rest = divmod(self._examples, self._size)

        def one(number: tf.Tensor, size: int = self._size) -> tf.Tensor:
            batch = {}
            for name, column in columns.items():
                start = tf.concat([[number * self._size], tf.zeros([column.shape.rank - 1], tf.int64)], 0)
                batch[name] = tf.slice(column, start, [size, *column.shape[1:]])
            return self.step(batch, number)

        def totals() -> tf.Tensor:
            first = one(tf.constant(0, tf.int64))
            _, total = tf.while_loop(
                lambda number, _: number < whole,
                lambda number, total: (number + 1, total + one(number)),
                (tf.constant(1, tf.int64), first),
                parallel_iterations=1,
            )
            return total + one(tf.constant(whole, tf.int64), rest) if rest else total

        return totals

    def step(self, batch: Mapping[str, tf.Tensor], number: tf.Tensor) -> tf.Tensor:
        """Return one batch's (sum, count) of each metric."""
        step = self._recipe.eval_step if tf.executing_eagerly() else self._converted
        self.names, totals = sums_and_counts(step(batch, Context(number, self._key)))
        return totals
