"""Make signatures accept an empty batch, which some TensorFlow CPU kernels refuse.

With oneDNN (TensorFlow 2.21), a convolution after a convolution can give an empty batch a wrong shape, so that the
next operation fails.
"""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf


def answering(function: Any) -> Any:
    """Return a `tf.function` with the same signature that internally pads an empty batch with one row of zeros.

    A function with a fixed batch size is returned unchanged. Outputs are the same, bit for bit.
    """
    specs = tf.nest.flatten(function.input_signature)
    if not specs or any(spec.shape.as_list()[:1] != [None] for spec in specs):
        return function

    def serve(*inputs: tf.Tensor) -> Mapping[str, tf.Tensor]:
        added = tf.cast(tf.equal(tf.shape(inputs[0])[0], 0), tf.int32)
        answers = function(*(tf.pad(one, [[0, added], *[[0, 0]] * (one.shape.rank - 1)]) for one in inputs))
        return {
            name: value[: tf.shape(value)[0] - added] if value.shape.as_list()[:1] == [None] else value
            for name, value in answers.items()
        }

    return tf.function(serve, input_signature=specs, autograph=False)
