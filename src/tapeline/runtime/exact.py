"""Operations whose kernels use approximate instructions are replaced by exact ones, in traced functions and outside.

`rsqrtps` and `rcpps` may differ between makers of CPUs, and do. They are replaced in graph mode and under XLA, in the
forward pass and in gradients, in a recipe's own calls and in Keras' layers alike: in the functions that TensorFlow
registers, and where an operation is run by itself, as in `evaluate`. A recipe is not touched, nor how TensorFlow
derives gradients.

The bodies are plain TensorFlow. They divide, and so the graph optimizers that make a product with a reciprocal of a
division are off where this is on (`startup.tensorflow`).
"""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from tapeline.runtime import replaced_operations
from tapeline.runtime.replaced_operations import Replaced


def replace() -> None:
    """Replace from now on. What was traced before stays as it is."""
    replaced_operations.replace_operations(OPERATIONS)


def _rsqrt(x: tf.Tensor, **_: Any) -> list[tf.Tensor]:
    wide = _wide(x)
    return [tf.cast(tf.math.divide(tf.constant(1, wide.dtype), tf.sqrt(wide)), x.dtype)]


def _reciprocal(x: tf.Tensor, **_: Any) -> list[tf.Tensor]:
    wide = _wide(x)
    return [tf.cast(tf.math.divide(tf.constant(1, wide.dtype), wide), x.dtype)]


def _softmax(logits: tf.Tensor, **_: Any) -> list[tf.Tensor]:
    wide = _wide(logits)
    powers = tf.exp(wide - tf.reduce_max(wide, -1, keepdims=True))
    return [tf.cast(tf.math.divide(powers, tf.reduce_sum(powers, -1, keepdims=True)), logits.dtype)]


def _wide(values: tf.Tensor) -> tf.Tensor:
    """Return values as the type that their kernel computes in: types of 16 bits are float32 inside."""
    return tf.cast(values, tf.float32) if values.dtype.size == 2 else values


_NOT_DOUBLED = frozenset({tf.as_dtype(number) for number in range(1, 24)} - {tf.float32, tf.float16, tf.bfloat16})


def _doubled(name: str) -> Replaced:
    """Return a function whose kernel divides approximately in float32, computed in float64."""
    operation = getattr(tf.raw_ops, name)

    def body(x: tf.Tensor, **_: Any) -> list[tf.Tensor]:
        return [tf.cast(operation(x=tf.cast(x, tf.float64)), x.dtype)]

    return Replaced(["y"], body, but=_NOT_DOUBLED)


def _batch_norm(
    x: tf.Tensor, scale: tf.Tensor, offset: tf.Tensor, mean: tf.Tensor, variance: tf.Tensor, **how: Any
) -> list[tf.Tensor]:
    axes, channels = _layout(how["data_format"])
    given = tf.cast(x, scale.dtype)
    used_mean, used_variance = mean, variance
    if how["is_training"]:
        used_mean = tf.reduce_mean(given, axes)
        used_variance = tf.reduce_mean(tf.square(given - tf.reshape(used_mean, channels)), axes)
    factor = tf.math.divide(scale, tf.sqrt(used_variance + how["epsilon"]))
    y = (given - tf.reshape(used_mean, channels)) * tf.reshape(factor, channels) + tf.reshape(offset, channels)
    told_mean, told_variance = used_mean, used_variance
    if how["is_training"]:
        count = tf.math.divide(tf.cast(tf.size(x), scale.dtype), tf.cast(tf.size(scale), scale.dtype))
        told_variance = used_variance * tf.math.divide(count, tf.maximum(count - 1, 1))
        new = how["exponential_avg_factor"]
        if new != 1:
            told_mean = (1 - new) * mean + new * told_mean
            told_variance = (1 - new) * variance + new * told_variance
    return [tf.cast(y, x.dtype), told_mean, told_variance, used_mean, used_variance, tf.zeros([0], scale.dtype)]


def _batch_norm_gradient(
    upper: tf.Tensor, x: tf.Tensor, scale: tf.Tensor, mean: tf.Tensor, variance: tf.Tensor, _: tf.Tensor, **how: Any
) -> list[tf.Tensor]:
    axes, channels = _layout(how["data_format"])
    given, incoming = tf.cast(x, mean.dtype), tf.cast(upper, mean.dtype)
    deviation = tf.sqrt(variance + how["epsilon"])
    normal = tf.math.divide(given - tf.reshape(mean, channels), tf.reshape(deviation, channels))
    of_scale, of_offset = tf.reduce_sum(incoming * normal, axes), tf.reduce_sum(incoming, axes)
    if how["is_training"]:
        means = (tf.reduce_mean(each, axes, keepdims=True) for each in (incoming, incoming * normal))
        incoming = incoming - next(means) - normal * next(means)
    factor = tf.math.divide(tf.cast(scale, mean.dtype), deviation)
    of_x = tf.cast(incoming * tf.reshape(factor, channels), x.dtype)
    return [of_x, of_scale, of_offset, tf.zeros([0], mean.dtype), tf.zeros([0], mean.dtype)]


def _layout(data_format: bytes) -> tuple[list[int], list[int]]:
    """Return the axes that batch normalization sums over, and the shape that broadcasts its channels."""
    letters = data_format.decode()
    return [n for n, letter in enumerate(letters) if letter != "C"], [-1 if letter == "C" else 1 for letter in letters]


BESSEL = ("I0", "I1", "J0", "J1", "K0", "K0e", "K1", "K1e", "Y0", "Y1")
DOUBLED = ("Atan", "Erfc", "Erfinv", "Ndtri", *(f"Bessel{kind}" for kind in BESSEL))
_SPACES = [f"reserve_space_{number}" for number in range(1, 6)]
OPERATIONS: Mapping[str, Replaced] = {
    "Rsqrt": Replaced(["y"], _rsqrt),
    "Reciprocal": Replaced(["y"], _reciprocal),
    "Inv": Replaced(["y"], _reciprocal),
    "Softmax": Replaced(["softmax"], _softmax),
    **{name: _doubled(name) for name in DOUBLED},
    "FusedBatchNormV3": Replaced(["y", "batch_mean", "batch_variance", *_SPACES[:3]], _batch_norm),
    "FusedBatchNormGradV3": Replaced(
        ["x_backprop", "scale_backprop", "offset_backprop", *_SPACES[3:]], _batch_norm_gradient
    ),
}
"""Operation → its exact form."""
