"""Batch normalization over the whole batch: its moments are means over all shards, forwards and backwards."""

from collections.abc import Iterable
from typing import Any

import keras
import tensorflow as tf

from tapeline.recipe.autograph import as_written
from tapeline.recipe.sharding import meetings
from tapeline.recipe.sharding.means import means
from tapeline.runtime import keras_private


def meet(layer: keras.Layer) -> None:
    """Make a layer's moments those of the batch, if it is a batch normalization; other layers stay unchanged."""
    if not isinstance(layer, keras.layers.BatchNormalization):
        return

    @as_written
    def moments(inputs: tf.Tensor, mask: tf.Tensor | None) -> tuple[tf.Tensor, tf.Tensor]:
        if meetings.running() is None:
            plain: tuple[tf.Tensor, tf.Tensor] = own(inputs, mask)
            return plain
        axes = [axis for axis in range(inputs.shape.rank) if axis != layer.axis % inputs.shape.rank]
        seen = None if mask is None else tf.broadcast_to(tf.cast(mask, tf.bool)[..., None], tf.shape(inputs))
        return _moments(f"the moments of {layer.path}", inputs, seen, axes)

    own = keras_private.replace_moments(layer, moments)


def averages(layers: Iterable[keras.Layer]) -> set[int]:
    """Return the `id`s of the variables that Keras' batch normalizations write: averages of the batch's moments."""
    kinds = [layer for layer in layers if type(layer) is keras.layers.BatchNormalization and layer.built]
    return {id(average.value) for layer in kinds for average in (layer.moving_mean, layer.moving_variance)}


def _moments(what: str, inputs: tf.Tensor, seen: tf.Tensor | None, axes: list[int]) -> tuple[tf.Tensor, tf.Tensor]:
    """Return mean and variance over `axes` of all shards, shape (channels,): deviations are from the batch's mean.

    seen: bool of the inputs' shape, the elements that count; None if all do.
    """

    def over_batch(name: str, values: tf.Tensor) -> tf.Tensor:
        if seen is None:
            return means(f"{what}, {name}", [tf.reduce_mean(values, axes, keepdims=True)])[0]
        counted = (tf.where(seen, values, tf.zeros_like(values)), tf.cast(seen, values.dtype))
        total, weight = (tf.reduce_mean(each, axes, keepdims=True) for each in counted)
        total, weight = means(f"{what}, {name}", [total, weight])
        return tf.math.divide_no_nan(total, weight)

    mean = over_batch("mean", inputs)
    squared = tf.square(inputs - mean) if seen is not None else _squared(inputs, mean, axes)
    variance = over_batch("variance", squared)
    return tf.squeeze(mean, axes), tf.squeeze(variance, axes)


def _squared(inputs: tf.Tensor, mean: tf.Tensor, axes: list[int]) -> tf.Tensor:
    """Return the squared deviations from a mean, whose gradient is no further differentiated.

    Keras' `tf.nn.moments` passes nothing back to the mean here, where the gradient is zero but for rounding: higher
    orders are those of the large batch only without it.
    """

    @tf.custom_gradient
    def squared(inputs: tf.Tensor, mean: tf.Tensor) -> Any:
        def backward(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            passed = upstream * (2.0 * (inputs - tf.stop_gradient(mean)))
            return passed, tf.stop_gradient(tf.reduce_sum(-passed, axes, keepdims=True))

        return tf.square(inputs - mean), backward

    result: tf.Tensor = squared(inputs, mean)
    return result
