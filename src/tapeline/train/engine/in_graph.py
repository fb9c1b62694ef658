"""Validation inside the compiled loop, so that one call can hold several epochs of training and validation.

It is the ordinary loop with an addition: the step that ends an epoch also measures the `val` split, and the loop's
table of sums has entries for its metrics.
"""

from contextlib import nullcontext

import tensorflow as tf

from tapeline.config.train import TrainSettings
from tapeline.recipe.evaluation import Evaluation
from tapeline.train.engine.averaging import Average


class InGraphValidation:
    """Measures `val` inside a loop at the end of each epoch with a validation due, with the averaged weights if any.

    evaluation: has been traced, so that its metrics are known.
    """

    def __init__(
        self, evaluation: Evaluation, settings: TrainSettings, *, steps_per_epoch: int, average: Average | None
    ) -> None:
        self._measure, self._settings, self._steps_per_epoch = evaluation.in_graph(), settings, steps_per_epoch
        self._average = average
        self.names = [f"val_{name}" for name in evaluation.names]
        """The metric names, `val_…`."""

    def __call__(self, step: tf.Tensor, last: tf.Tensor) -> tf.Tensor:
        """Return each metric's (sum, count), float64 of shape (metrics, 2), if `step` is the epoch's end `last`.

        Returns zeros if no validation is due.
        """
        epoch = last // self._steps_per_epoch
        asked = tf.logical_or(epoch % self._settings.validate_every == 0, epoch == self._settings.epochs)
        due = tf.logical_and(tf.equal(step, last), asked)
        return tf.cond(due, self._totals, lambda: tf.zeros([len(self.names), 2], tf.float64))

    def _totals(self) -> tf.Tensor:
        with self._average.in_place() if self._average else nullcontext():
            return self._measure()
