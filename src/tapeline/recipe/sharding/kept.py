"""What Python keeps between two meetings of a shard: others run meanwhile, and each has its own."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tapeline.recipe.sharding.meetings import Keep
from tapeline.recipe.variables import layers
from tapeline.runtime import keras_private


def of(recipe: Any) -> Keep:
    """Return a function that takes a snapshot of a recipe: losses that layers have added, and tensors in attributes."""
    every = list(layers(recipe))

    def snapshot() -> Callable[[], None]:
        tensors = {name: value for name, value in vars(recipe).items() if _is_plain(value)}
        losses = keras_private.losses(every)

        def restore() -> None:
            vars(recipe).update(tensors)
            losses()

        return restore

    return snapshot


def _is_plain(value: Any) -> bool:
    return tf.is_tensor(value) and not isinstance(value, tf.Variable)
