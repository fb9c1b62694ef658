"""Operations whose kernels are slow are compiled by XLA in a step of training, with the same bits on each CPU.

Without oneDNN, whose bits depend on the CPU, TensorFlow finds the gradient of max pooling one number at a time: a fifth
of the step of a small convolutional network. What is in its place chooses and copies, and so has the kernel's bits.

A convolution's gradients have kernels that lay out patches for each image, with few channels several times as slow as
XLA's, which are convolutions. Their sums have another order, and one that depends on the number of threads: they are
compiled where an operation has one thread.

None of it is in a function that is exported: not every program that serves a model has XLA.
"""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from tapeline.runtime import tensorflow_private
from tapeline.runtime.tensorflow_private import Replaced

MOST_PIXELS = 16
"""Of a window: each is a part of the compiled code."""
LEAST = 300_000
"""Numbers of which a pooling's gradient must be: for fewer, compiling (0.1 s) costs more than 200 steps save."""
LEAST_PRODUCTS = 20_000_000
"""Products of two numbers in a convolution, for the same reason."""
LEAST_CHANNELS = 16
"""Of the images whose gradient is compiled: with fewer, the kernel is faster."""


@contextmanager
def compiled() -> Iterator[None]:
    """Compile these operations in functions that are traced in the block, if bits are portable and there is no GPU."""
    chosen: Mapping[str, Replaced] = {}
    if not tf.config.list_physical_devices("GPU"):
        one_thread = tf.config.threading.get_intra_op_parallelism_threads() == 1
        chosen = {**OPERATIONS, **CONVOLUTIONS} if one_thread else OPERATIONS
    with tensorflow_private.replaced_too(chosen):
        yield


def _max_pool_gradient(x: tf.Tensor, y: tf.Tensor, upper: tf.Tensor, **how: Any) -> list[tf.Tensor]:
    _, rows, columns, _ = how["ksize"]
    batch, high, wide, channels = tf.unstack(tf.shape(y), 4)
    windows = tf.reshape(x[:, : high * rows, : wide * columns], [batch, high, rows, wide, columns * channels])
    parts, zero = [], tf.zeros_like(upper)
    upper = tf.where(tf.equal(upper, zero), zero, upper)  # the kernel adds to 0, which makes 0 of -0
    for row in range(rows):
        for column in range(columns):  # the first of the largest gets all
            pixel = windows[:, :, row, :, column * channels : (column + 1) * channels]
            smaller = tf.less(pixel, y)  # false for what is no number, which so is passed on
            parts.append(tf.where(smaller, zero, upper))
            upper = tf.where(smaller, upper, zero)
    lines = [tf.concat(parts[first : first + columns], -1) for first in range(0, len(parts), columns)]
    found = tf.reshape(tf.stack(lines, 2), [batch, high * rows, wide * columns, channels])
    outside = tf.shape(x) - tf.shape(found)
    return [tf.pad(found, tf.stack([tf.zeros_like(outside), outside], 1))]


def _covers_once(pooling: Any) -> bool:
    """Return whether the windows of a large pooling cover each pixel once at most, and have few pixels."""
    examples, rows, columns, channels = size = pooling.get_attr("ksize")
    plain = pooling.get_attr("padding") == b"VALID" and pooling.get_attr("data_format") == b"NHWC"
    few = size == pooling.get_attr("strides") and rows * columns <= MOST_PIXELS and examples == channels == 1
    return bool(plain and few and (pooling.inputs[0].shape.num_elements() or 0) >= LEAST)


def _kernel_gradient(images: tf.Tensor, shape: tf.Tensor, upper: tf.Tensor, **how: Any) -> list[tf.Tensor]:
    del how["T"]
    return [tf.raw_ops.Conv2DBackpropFilter(input=images, filter_sizes=shape, out_backprop=upper, **how)]


def _image_gradient(shape: tf.Tensor, kernel: tf.Tensor, upper: tf.Tensor, **how: Any) -> list[tf.Tensor]:
    del how["T"]
    return [tf.raw_ops.Conv2DBackpropInput(input_sizes=shape, filter=kernel, out_backprop=upper, **how)]


def _of_kernel(gradient: Any) -> bool:
    """Return whether the gradient of a convolution's kernel is compiled: not that of single pixels."""
    images, kernel = gradient.inputs[0].shape, gradient.outputs[0].shape
    return _is_large(gradient, images, kernel) and kernel[0] * kernel[1] > 1


def _of_images(gradient: Any) -> bool:
    """Return whether the gradient of a convolution's images is compiled.

    That of a convolution without padding is one with more than the kernel computes.
    """
    images, kernel = gradient.outputs[0].shape, gradient.inputs[1].shape
    padded = gradient.get_attr("padding") == b"SAME" or max(gradient.get_attr("strides")) > 1
    return padded and _is_large(gradient, images, kernel) and kernel[2] >= LEAST_CHANNELS


def _is_large(gradient: Any, images: tf.TensorShape, kernel: tf.TensorShape) -> bool:
    """Return whether a plain convolution takes at least `LEAST_PRODUCTS`, as far as the trace knows."""
    upper, how = gradient.inputs[2], gradient.get_attr
    known = all(shape.is_fully_defined() for shape in (images, kernel, upper.shape)) and upper.dtype == tf.float32
    plain = how("data_format") == b"NHWC" and max(how("dilations")) == 1 and how("padding") != b"EXPLICIT"
    if not (known and plain) or kernel[2] != images[3]:  # those in groups
        return False
    return bool(upper.shape.num_elements() * math.prod(kernel[:3]) >= LEAST_PRODUCTS)


OPERATIONS: Mapping[str, Replaced] = {
    "MaxPoolGrad": Replaced(["output"], _max_pool_gradient, only=_covers_once, compiled=True)
}
"""Operation → what is compiled in its place, with the same bits."""
CONVOLUTIONS: Mapping[str, Replaced] = {
    "Conv2DBackpropFilter": Replaced(["output"], _kernel_gradient, only=_of_kernel, compiled=True),
    "Conv2DBackpropInput": Replaced(["output"], _image_gradient, only=_of_images, compiled=True),
}
"""Those whose bits are others."""
