"""Make signatures accept an empty batch, which some TensorFlow CPU kernels refuse.

With oneDNN (TensorFlow 2.21), a convolution after a convolution can give an empty batch a wrong shape, so that the
next operation fails.
"""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
from numpy.typing import NDArray


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


def refused_padded(
    plain: Mapping[str, Any], padded: Mapping[str, Any], empty: Mapping[str, Mapping[str, NDArray[Any]]]
) -> dict[str, Any]:
    """Return the plain functions that answer an empty batch where the padded one fails, as to parse an empty text does.

    empty: signature → input → an empty batch.
    """
    return {
        key: plain[key]
        for key, given in empty.items()
        if not _answers(padded[key], given) and _answers(plain[key], given)
    }


def _answers(function: Any, given: Mapping[str, NDArray[Any]]) -> bool:
    traced = function.get_concrete_function()  # a call of the function itself would be warned of as a retracing
    try:
        traced(*(tf.constant(given[spec.name], spec.dtype) for spec in tf.nest.flatten(function.input_signature)))
    except tf.errors.OpError:
        return False
    return True
