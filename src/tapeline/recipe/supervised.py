"""The common case: one loss and one optimizer. Tape → gradients → transforms → update."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from tapeline.recipe import optimizers
from tapeline.recipe.autograph import as_written, theirs
from tapeline.recipe.context import Context
from tapeline.recipe.contract import Batch, Metrics, Recipe
from tapeline.recipe.sharding.means import means
from tapeline.runtime.errors import InputError


class Supervised(Recipe):
    """A recipe with `self.model`, `self.optimizer` and a loss; override `variables` for another layout."""

    model: Any
    optimizer: Any

    @abstractmethod
    def loss(self, batch: Batch, *, training: bool) -> tuple[tf.Tensor, Mapping[str, tf.Tensor]]:
        """Return the loss of each example, shape (batch,), and further metrics: per example, or (sum, count) pairs."""

    def configure(self, **options: Any) -> None:
        """Apply the options. Creates the optimizer's slots now if the variables exist, so that one trace is enough."""
        super().configure(**options)
        kind = type(self)
        if kind.variables is Supervised.variables and not hasattr(self, "model"):
            raise InputError(
                f"{kind.__name__} has no self.model: create it in `build`, or override the property `variables` to "
                "return what to train"
            )
        if kind.train_step is Supervised.train_step and not hasattr(self, "optimizer"):
            raise InputError(f"{kind.__name__} has no self.optimizer: create it in `build`")
        model, optimizer = getattr(self, "model", None), getattr(self, "optimizer", None)
        if getattr(model, "built", False) and not getattr(optimizer, "built", True):
            self.optimizer.build(self.variables)

    @property
    def variables(self) -> Sequence[Any]:
        """The variables that the optimizer trains."""
        trained: Sequence[Any] = self.model.trainable_variables
        return trained

    @as_written
    def regularization(self) -> tf.Tensor | float:
        """Return a scalar to add to the mean loss; by default the sum of the model's regularization losses."""
        losses = getattr(getattr(self, "model", None), "losses", None)
        return tf.add_n([_wide(loss) for loss in losses]) if losses else 0.0

    @as_written
    def train_step(self, batch: Batch, context: Context) -> Metrics:
        """Minimize the mean loss with one update."""
        metrics: Metrics
        gradients, metrics = theirs(self.gradients)(batch)
        theirs(self.update)(self.optimizer, self.variables, gradients)
        return metrics

    @as_written
    def gradients(self, batch: Batch) -> tuple[Sequence[tf.Tensor | None], Metrics]:
        """Return the gradient of the batch's mean loss for each of `variables`, and the metrics.

        If the optimizer scales the loss, the gradients are scaled too, and it unscales them. In a shard, the gradient
        is that of the whole batch; the metrics are the shard's own.
        """
        with tf.GradientTape() as tape:
            losses, metrics = self._measured(batch, training=True)
            mean = tf.reduce_mean(_wide(losses))
            objective = self._scaled(mean + tf.cast(theirs(self.regularization)(), mean.dtype))
        return means("self.gradients", tape.gradient(objective, self.variables)), {"loss": losses, **metrics}

    @as_written
    def _scaled(self, objective: tf.Tensor) -> tf.Tensor:
        """Return the objective times the optimizer's loss scale; the objective itself without one."""
        optimizer: Any = getattr(self, "optimizer", None)
        if not optimizers.scales_loss(optimizer):
            return objective
        if not optimizer.built:  # its scale is a variable from then on
            with tf.init_scope():
                optimizer.build(self.variables)
        return theirs(optimizer.scale_loss)(objective)

    @as_written
    def eval_step(self, batch: Batch, context: Context) -> Metrics:
        """Measure one batch in inference mode: no dropout, moving statistics in batch normalization."""
        losses, metrics = self._measured(batch, training=False)
        return {"loss": losses, **metrics}

    @as_written
    def _measured(self, batch: Batch, *, training: bool) -> tuple[tf.Tensor, Mapping[str, tf.Tensor]]:
        """Return the result of `loss`. Raises `InputError` unless it is a pair, with one loss per example."""
        returned: Any = theirs(self.loss)(batch, training=training)
        if not isinstance(returned, (tuple, list)) or len(returned) != 2 or not isinstance(returned[1], Mapping):
            raise InputError(
                f"{type(self).__name__}.loss must return a pair: the loss of each example and a dict of further "
                f"metrics, such as `return losses, {{}}`"
            )
        losses, metrics = returned
        several = isinstance(losses, (tuple, list))
        if several or (tf.is_tensor(losses) and losses.shape.rank not in (None, 1)):
            what = f"a {type(losses).__name__}" if several else f"a loss of shape {tuple(losses.shape)}"
            way = "average it over all axes but the first"
            if several or not losses.shape.rank:
                way = 'do not average over the batch (a loss of Keras: reduction="none")'
            raise InputError(
                f"{type(self).__name__}.loss returns {what}: return one loss per example, shape (batch,): {way}"
            )
        return losses, metrics


@as_written
def _wide(losses: Any) -> tf.Tensor:
    """Return losses of 16 bits, as layers of a mixed policy have them, in float32, as those of weights are."""
    losses = tf.convert_to_tensor(losses)
    return tf.cast(losses, tf.float32) if losses.dtype.size == 2 else losses
