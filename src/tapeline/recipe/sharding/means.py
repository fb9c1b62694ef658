"""What shards bring to a meeting becomes the batch's: its mean, summed in a fixed balanced binary tree.

The order of the sum depends on the number of shards alone, not on which is done first. A mean is differentiated as one
of all shards, whose gradient is the mean of what each passes back: through it, shards train as one large batch.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tapeline.recipe.autograph import as_written
from tapeline.recipe.sharding import meetings
from tapeline.runtime import tensorflow_private
from tapeline.runtime.errors import InputError


def balanced_sum(values: Sequence[Any]) -> Any:
    """Return the sum of one value for each shard: of the first half's sum and the second half's."""
    if len(values) == 1:
        return values[0]
    half = (len(values) + 1) // 2
    return balanced_sum(values[:half]) + balanced_sum(values[half:])


def balanced_mean(values: Sequence[Any]) -> Any:
    """Return the mean of one value for each shard; that of `tf.IndexedSlices` has the slices of all."""
    if not isinstance(values[0], tf.IndexedSlices):
        total = balanced_sum([tf.convert_to_tensor(value) for value in values])
        return tf.math.divide(total, tf.cast(len(values), total.dtype))
    rows = tf.concat([value.values for value in values], 0)
    places = tf.concat([value.indices for value in values], 0)
    return tf.IndexedSlices(tf.math.divide(rows, tf.cast(len(values), rows.dtype)), places, values[0].dense_shape)


def batch_gradients(step: meetings.Shards, brought: Sequence[Sequence[Any]]) -> list[Any]:
    """Return the mean of the shards' gradients for each variable; what is a mean of all shards stays as it is."""

    def of_batch(values: Sequence[Any]) -> Any:
        known = [step.met(value) for value in values]
        return known[0] if known[0] is not None and all(one is known[0] for one in known) else balanced_mean(values)

    return [of_batch(each) for each in zip(*brought, strict=True)]


@as_written
def means(what: str, brought: Sequence[Any]) -> list[Any]:
    """Return the mean over shards of each tensor; without shards, the tensors. None stays None.

    what: names the place, as for `meetings.meet`. The means of dense tensors can be differentiated, to any order, but
    backwards only. Raises `InputError` for values that a `tf.autodiff.ForwardAccumulator` follows.
    """
    shard = meetings.running()
    if shard is None:
        return list(brought)
    dense = [value for value in brought if value is not None]
    if tensorflow_private.has_tangents(tf.nest.flatten(dense, expand_composites=True)):
        raise InputError(
            f"train.shards: {what} is inside a tf.autodiff.ForwardAccumulator, whose derivatives would be those of one "
            "shard: use tf.GradientTape, or set train.shards to 1"
        )
    found = iter(meetings.meet(what, dense, lambda every: [balanced_mean(each) for each in zip(*every, strict=True)]))
    return [None if value is None else _joined(what, value, next(found)) for value in brought]


def _joined(what: str, value: Any, met: Any) -> Any:
    """Return a meeting's result as this shard's, through which gradients meet too."""
    shard = meetings.running()
    assert shard is not None, "called for a shard"
    sparse = isinstance(value, tf.IndexedSlices)

    @tf.custom_gradient
    def joined(value: tf.Tensor, met: tf.Tensor) -> Any:
        def backward(upstream: tf.Tensor) -> Any:
            if sparse:
                raise InputError(f"train.shards: {what} of rows of a table, which cannot be differentiated again")
            return *means(f"{what}, backwards", [upstream]), None

        return tf.identity(met), backward

    if sparse:
        result = tf.IndexedSlices(joined(value.values, met.values), met.indices, met.dense_shape)
    else:
        result = joined(value, met)
    shard.step.remember(result, met)
    return result
