"""The gradient of a large batch from micro-batches: one after the other, so that one micro-batch's memory suffices."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from tapeline.recipe.contract import Batch

Gradients = Sequence[tf.Tensor]
Measured = Mapping[str, tf.Tensor]
"""Name → (sum, count), shape (2,)."""


def accumulate(step: Callable[[Batch], tuple[Gradients, Measured]], batch: Batch, parts: int) -> tuple[list[Any], Any]:
    """Return the mean of `parts` equal micro-batches' gradients and the sums of their metrics.

    batch: tensors of shape (parts × micro-batch, ...). The mean of means is the large batch's mean, because the
    micro-batches are equal.
    """
    stacked = {name: tf.reshape(value, [parts, -1, *value.shape[1:]]) for name, value in batch.items()}

    def take(number: tf.Tensor) -> tuple[Gradients, Measured]:
        return step({name: tf.gather(value, number) for name, value in stacked.items()})

    def add(number: tf.Tensor, gradients: Any, measured: Any) -> tuple[tf.Tensor, Any, Any]:
        more_gradients, more_measured = take(number)
        summed = [total + tf.convert_to_tensor(more) for total, more in zip(gradients, more_gradients, strict=True)]
        return number + 1, summed, {name: total + more_measured[name] for name, total in measured.items()}

    gradients, measured = take(tf.constant(0))
    first = (tf.constant(1), [tf.convert_to_tensor(gradient) for gradient in gradients], dict(measured))
    _, gradients, measured = tf.while_loop(
        lambda number, *_: number < parts, add, first, parallel_iterations=1, maximum_iterations=parts - 1
    )
    return [gradient / parts for gradient in gradients], measured
