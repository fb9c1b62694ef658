"""Gradient transforms: pure functions from gradients to gradients, in the order of `Transforms`."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tapeline.config.hyperparameters import Transforms
from tapeline.recipe.autograph import as_written


@as_written
def summed(gradient: Any, variable: Any) -> Any:
    """Return the variable's gradient as one tensor: of rows of a table, `tf.IndexedSlices`, the sum for each row.

    Clipping and squaring would else take each part of a row for itself. Parts are added in the order they come in.
    """
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    return tf.math.unsorted_segment_sum(gradient.values, gradient.indices, variable.shape[0])


@as_written
def transform(
    gradients: Sequence[tf.Tensor], variables: Sequence[tf.Variable], transforms: Transforms, seed: tf.Tensor | None
) -> list[tf.Tensor]:
    """Return the gradients after the chosen transforms; same shapes and dtypes.

    seed: int32, shape (2,), needed only for noise.
    """
    result = list(gradients)
    if transforms.clip_value is not None:
        result = [tf.clip_by_value(g, -transforms.clip_value, transforms.clip_value) for g in result]
    if transforms.clip_norm is not None:
        result = [tf.clip_by_norm(g, transforms.clip_norm) for g in result]
    if transforms.clip_global_norm is not None:
        result, _ = tf.clip_by_global_norm(result, transforms.clip_global_norm)
    if transforms.weight_decay is not None:
        result = [g + transforms.weight_decay * tf.cast(v, g.dtype) for g, v in zip(result, variables, strict=True)]
    if transforms.noise is not None:
        result = [
            g + tf.random.stateless_normal(g.shape, tf.random.fold_in(seed, i), stddev=transforms.noise, dtype=g.dtype)
            for i, g in enumerate(result)
        ]
    return result
