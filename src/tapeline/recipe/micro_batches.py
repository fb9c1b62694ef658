"""The gradient of a large batch from equal micro-batches: the mean of their means is the large batch's mean."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from tapeline.recipe.contract import Batch

Gradients = Sequence[tf.Tensor]
Measured = Mapping[str, tf.Tensor]
"""Name → (sum, count), shape (2,)."""
Step = Callable[[Batch], tuple[Gradients, Measured]]
"""Tensors of shape (examples, ...) → mean gradients and metric sums."""


def one_after_the_other(step: Step, parts: int) -> Step:
    """Return a step over `parts` micro-batches in a loop: it needs the memory of only one."""

    def accumulated(batch: Batch) -> tuple[Gradients, Measured]:
        stacked = _cut(batch, parts)

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

    return accumulated if parts > 1 else step


def side_by_side(step: Step, parts: int) -> Step:
    """Return a step whose `parts` micro-batches are independent: in a graph, each can run on its own core."""

    def replicated(batch: Batch) -> tuple[Gradients, Measured]:
        stacked = _cut(batch, parts)
        gradients, measured = zip(
            *(step({name: value[number] for name, value in stacked.items()}) for number in range(parts)), strict=True
        )
        means = [tf.add_n([tf.convert_to_tensor(one) for one in each]) / parts for each in zip(*gradients, strict=True)]
        return means, {name: tf.add_n([one[name] for one in measured]) for name in measured[0]}

    return replicated if parts > 1 else step


def _cut(batch: Batch, parts: int) -> dict[str, tf.Tensor]:
    """Return tensors of shape (parts, examples / parts, ...)."""
    return {name: tf.reshape(value, [parts, -1, *value.shape[1:]]) for name, value in batch.items()}
