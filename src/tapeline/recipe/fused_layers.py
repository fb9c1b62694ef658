"""TensorFlow's fused kernels for Keras layers that take many operations for the same computation.

Keras 3 normalizes a batch in many operations, each a pass over the activations; TensorFlow has one kernel for the
forward pass and one for the backward pass. The formula is the same but rounds at other points, so the last bits differ.
"""

from typing import Any

import keras
import tensorflow as tf


def fuse(layer: keras.Layer) -> None:
    """Make a layer use its fused kernel, if it has one, in training; inference and other layers stay unchanged."""
    if type(layer) is keras.layers.BatchNormalization and not layer.renorm and not layer.synchronized:
        layer.call = _batch_normalization(layer)


def _batch_normalization(layer: Any) -> Any:
    """Return a fused `call`: Ioffe and Szegedy 2015, for images (batch, height, width, channels); float32 moments."""
    plain = layer.call

    def call(inputs: tf.Tensor, training: bool | None = None, mask: tf.Tensor | None = None) -> tf.Tensor:
        images = inputs.shape.rank == 4 and layer.axis in (-1, 3) and inputs.dtype in (tf.float32, tf.bfloat16)
        if not (training and layer.trainable and images and mask is None):
            return plain(inputs, training=training, mask=mask)
        channels = inputs.shape[-1]
        outputs, mean, variance, *_ = tf.raw_ops.FusedBatchNormV3(
            x=inputs,
            scale=tf.ones([channels]) if layer.gamma is None else layer.gamma,
            offset=tf.zeros([channels]) if layer.beta is None else layer.beta,
            mean=tf.zeros([0]),
            variance=tf.zeros([0]),
            epsilon=layer.epsilon,
            is_training=True,
        )
        count = tf.cast(tf.size(inputs) // channels, tf.float32)
        variance *= (count - 1) / count  # Keras uses the biased variance
        for moving, moment in ((layer.moving_mean, mean), (layer.moving_variance, variance)):
            moving.assign(moving * layer.momentum + moment * (1.0 - layer.momentum))
        return tf.cast(outputs, layer.compute_dtype)

    return call
