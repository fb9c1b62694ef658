"""The private names of Keras that Tapeline uses, all of them: an upgrade that removes one is repaired here.

`tests/runtime/test_keras_private.py` fails by name when one goes; `pyproject.toml` bounds the version.
"""

from collections.abc import Iterator
from typing import Any

import keras
from keras.src.backend.common import global_state
from keras.src.random.seed_generator import GLOBAL_SEED_GENERATOR


def layers_in(layer: keras.Layer, *, include_self: bool = True) -> Iterator[keras.Layer]:
    """Yield the layers nested in a layer, at any depth, each once, in Keras' order; the layer itself first."""
    found: Iterator[keras.Layer] = layer._flatten_layers(include_self=include_self)
    return found


def slot_index(optimizer: Any, variable: Any) -> int:
    """Return the index of a variable's slots in an optimizer's lists of slots."""
    return int(optimizer._get_variable_index(variable))


def adam_moments(optimizer: Any, index: int) -> tuple[keras.Variable, keras.Variable]:
    """Return Adam's first and second moment of the variable with this `slot_index`."""
    return optimizer._momentums[index], optimizer._velocities[index]


def global_seed_state() -> keras.Variable | None:
    """Return the state of `keras.random`'s global generator; None if nothing has drawn from it since the last reset."""
    generator = global_state.get_global_attribute(GLOBAL_SEED_GENERATOR)
    return generator.state if generator is not None else None
