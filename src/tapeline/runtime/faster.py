"""Operations whose kernels are slow are compiled by XLA in a step of training, with the same bits.

Without oneDNN, whose bits depend on the CPU, TensorFlow finds the gradient of max pooling one number at a time: a fifth
of the step of a small convolutional network. What is here chooses and copies, so that it has no rounding. It is in no
function that is exported: not every program that serves a model has XLA.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from tapeline.runtime import tensorflow_private
from tapeline.runtime.tensorflow_private import Replaced

MOST_PIXELS = 16
"""Of a window: each is a part of the compiled code."""
LEAST = 300_000
"""Numbers of which the gradient must be: for fewer, compiling (0.1 s) takes longer than it saves in some 200 steps."""


@contextmanager
def compiled() -> Iterator[None]:
    """Compile these operations in functions that are traced in the block, if bits are portable and there is no GPU."""
    with tensorflow_private.replaced_too({} if tf.config.list_physical_devices("GPU") else OPERATIONS):
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


def _once(how: Mapping[str, Any]) -> bool:
    """Return whether the windows of a pooling cover each pixel once at most, and have few pixels."""
    examples, rows, columns, channels = how["ksize"]
    plain = how["padding"] == b"VALID" and how["data_format"] == b"NHWC" and examples == channels == 1
    return bool(plain and how["ksize"] == how["strides"] and rows * columns <= MOST_PIXELS)


OPERATIONS: Mapping[str, Replaced] = {
    "MaxPoolGrad": Replaced(["output"], _max_pool_gradient, only=_once, least=LEAST, compiled=True),
}
"""Operation → what is compiled in its place."""
