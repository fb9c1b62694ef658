"""TensorFlow's fused kernels for Keras layers that compute the same by many operations.

Keras 3 normalizes a batch by many operations, each of them a pass over the activations; TensorFlow has one kernel for
the way forward and one for the way back. The formula is the same, rounded elsewhere, so that the last bits differ.
"""

from typing import Any

import keras
import tensorflow as tf


def fuse(layer: keras.Layer) -> None:
    """Have a layer that has a kernel use it in training; any other, and any other use of it, stays as it is."""
    if type(layer) is keras.layers.BatchNormalization and not layer.renorm and not layer.synchronized:
        layer.call = _batch_normalization(layer)


def _batch_normalization(layer: Any) -> Any:
    """Ioffe and Szegedy 2015, for images of shape (batch, height, width, channels); moments in float32."""
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
        variance *= (count - 1) / count  # Keras' is the biased one
        for moving, moment in ((layer.moving_mean, mean), (layer.moving_variance, variance)):
            moving.assign(moving * layer.momentum + moment * (1.0 - layer.momentum))
        return tf.cast(outputs, layer.compute_dtype)

    return call
