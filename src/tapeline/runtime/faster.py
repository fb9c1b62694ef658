"""Operations whose kernels are slow are replaced in a step of training, with the same bits on each CPU.

Without oneDNN, whose bits depend on the CPU, TensorFlow finds the gradient of max pooling one number at a time: a fifth
of the step of a small convolutional network. The replacement only selects and copies, so its bits are the kernel's.

A convolution's gradients have kernels that lay out patches for each image, with few channels several times as slow as
XLA's, which are convolutions. Their sums have another order, and one that depends on the number of threads: they are
compiled where an operation has one thread.

In 16 bits, some kernels convert each number each time they read it, and are five to ten times as slow as in float32.
They are given float32, and their results rounded, as the CPUs do that have instructions for bfloat16.

None of it is in a function that is exported: not every program that serves a model has XLA, and a GPU has bfloat16.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from tapeline.runtime import replaced_operations
from tapeline.runtime.replaced_operations import Replaced

MOST_PIXELS = 16
"""The largest window: each of its pixels adds to the compiled code."""
LEAST = 300_000
"""The smallest pooling gradient, in numbers: below, compiling (0.1 s) costs more than 200 steps save."""
LEAST_PRODUCTS = 20_000_000
"""The smallest convolution, in products of two numbers, for the same reason."""
NARROW = (tf.bfloat16, tf.float16)
"""Types of 16 bits."""
LEAST_CHANNELS = 16
"""The fewest channels of images whose gradient is compiled: with fewer, the kernel is faster."""


@contextmanager
def kernels() -> Iterator[None]:
    """Replace them in functions that are traced in the block, if bits are portable and there is no GPU."""
    with replaced_operations.replaced_too({} if tf.config.list_physical_devices("GPU") else OPERATIONS):
        yield


def _max_pool_gradient(x: tf.Tensor, y: tf.Tensor, upper: tf.Tensor, **how: Any) -> list[tf.Tensor]:
    _, rows, columns, _ = how["ksize"]
    batch, high, wide, channels = tf.unstack(tf.shape(y), 4)
    upper = tf.where(tf.equal(upper, tf.zeros_like(upper)), tf.zeros_like(upper), upper)  # the kernel makes 0 of -0
    kind = upper.dtype
    if kind in NARROW:  # their arithmetic converts; bits are chosen without
        x, y, upper = tf.cast(x, tf.float32), tf.cast(y, tf.float32), tf.bitcast(upper, tf.uint16)
    windows = tf.reshape(x[:, : high * rows, : wide * columns], [batch, high, rows, wide, columns * channels])
    parts, zero = [], tf.zeros_like(upper)
    for row in range(rows):
        for column in range(columns):  # the first of the largest gets all
            pixel = windows[:, :, row, :, column * channels : (column + 1) * channels]
            smaller = tf.less(pixel, y)  # false for what is no number, which so is passed on
            parts.append(tf.where(smaller, zero, upper))
            upper = tf.where(smaller, upper, zero)
    lines = [tf.concat(parts[first : first + columns], -1) for first in range(0, len(parts), columns)]
    found = tf.reshape(tf.stack(lines, 2), [batch, high * rows, wide * columns, channels])
    outside = tf.shape(x) - tf.shape(found)
    return [tf.bitcast(tf.pad(found, tf.stack([tf.zeros_like(outside), outside], 1)), kind)]


def _covers_once(pooling: Any) -> bool:
    """Return whether the windows of a large pooling cover each pixel once at most, and have few pixels."""
    examples, rows, columns, channels = size = pooling.get_attr("ksize")
    plain = pooling.get_attr("padding") == b"VALID" and pooling.get_attr("data_format") == b"NHWC"
    few = size == pooling.get_attr("strides") and rows * columns <= MOST_PIXELS and examples == channels == 1
    return bool(plain and few and (pooling.inputs[0].shape.num_elements() or 0) >= LEAST)


def _wide(operation: str) -> Callable[..., list[tf.Tensor]]:
    """Return an operation that computes in float32 what it is given in 16 bits, and rounds the result."""
    run = replaced_operations.function_of(operation)

    def body(*given: tf.Tensor, **how: Any) -> list[tf.Tensor]:
        widened = [tf.cast(each, tf.float32) if each.dtype in NARROW else each for each in given]
        return [tf.cast(run(*widened, **how), given[-1].dtype)]

    return body


def _is_narrow(operation: Any) -> bool:
    return operation.outputs[0].dtype in NARROW


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
    """Return whether a plain convolution with one thread takes at least `LEAST_PRODUCTS`, as far as the trace knows."""
    upper, how = gradient.inputs[2], gradient.get_attr
    known = all(shape.is_fully_defined() for shape in (images, kernel, upper.shape))
    fits = upper.dtype in (tf.float32, *NARROW) and tf.config.threading.get_intra_op_parallelism_threads() == 1
    plain = how("data_format") == b"NHWC" and max(how("dilations")) == 1 and how("padding") != b"EXPLICIT"
    if not (known and fits and plain) or kernel[2] != images[3]:  # those in groups
        return False
    return bool(upper.shape.num_elements() * math.prod(kernel[:3]) >= LEAST_PRODUCTS)


def _convolution(operation: str, compiled: Callable[[Any], bool]) -> Replaced:
    """Return the gradient of a convolution, compiled or not."""
    return Replaced(["output"], _wide(operation), only=lambda one: _is_narrow(one) or compiled(one), compiled=compiled)


WIDENED = (
    "Conv3D",
    "Conv3DBackpropFilterV2",
    "Conv3DBackpropInputV2",
    "DepthwiseConv2dNativeBackpropFilter",
    "Einsum",
)
"""Those whose kernels convert each number of 16 bits each time they read it."""
OPERATIONS: Mapping[str, Replaced] = {
    "MaxPoolGrad": Replaced(["output"], _max_pool_gradient, only=_covers_once, compiled=lambda pooling: True),
    "Conv2DBackpropFilter": _convolution("Conv2DBackpropFilter", _of_kernel),
    "Conv2DBackpropInput": _convolution("Conv2DBackpropInput", _of_images),
    **{name: Replaced(["output"], _wide(name), only=_is_narrow) for name in WIDENED},
}
"""Operation → what stands in for it."""
