"""Validation inside the compiled loop, so that one call can hold several epochs of training and validation.

It is the ordinary loop with an addition: the step that ends an epoch also measures the `val` split, and the loop's
table of sums has entries for its metrics.
"""

from contextlib import nullcontext

import tensorflow as tf

from tapeline.config.train import TrainSettings
from tapeline.recipe.evaluation import Evaluation
from tapeline.train.engine.averaging import Average


class InGraphMeasure:
    """Measures the `val` split in a graph: each metric's (sum, count), float64 of shape (`rows`, 2)."""

    def __init__(self, evaluation: Evaluation) -> None:
        self._measure = evaluation.in_graph()
        traced = tf.function(self._measure, autograph=False).get_concrete_function()
        self.rows = int(traced.structured_outputs.shape[0])
        self.names = [f"val_{name}" for name in evaluation.names]
        """The metric names, `val_…`."""

    def __call__(self) -> tf.Tensor:
        """Return the sums and counts of the whole split."""
        return self._measure()


class InGraphValidation:
    """Measures `val` inside a loop at the end of each epoch with a validation due, with the averaged weights if any."""

    def __init__(
        self, measure: InGraphMeasure, settings: TrainSettings, *, steps_per_epoch: int, average: Average | None
    ) -> None:
        self._measure, self._settings, self._steps_per_epoch = measure, settings, steps_per_epoch
        self._average = average
        self.names = measure.names

    def __call__(self, step: tf.Tensor, last: tf.Tensor) -> tf.Tensor:
        """Return each metric's (sum, count), float64 of shape (metrics, 2), if `step` is the epoch's end `last`.

        Returns zeros if no validation is due.
        """
        epoch = last // self._steps_per_epoch
        asked = tf.logical_or(epoch % self._settings.validate_every == 0, epoch == self._settings.epochs)
        due = tf.logical_and(tf.equal(step, last), asked)
        return tf.cond(due, self._totals, lambda: tf.zeros([self._measure.rows, 2], tf.float64))

    def _totals(self) -> tf.Tensor:
        with self._average.in_place() if self._average else nullcontext():
            return self._measure()
