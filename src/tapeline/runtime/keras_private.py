"""The private names of Keras that Tapeline uses, all of them: an upgrade that removes one is repaired here.

`tests/runtime/test_keras_private.py` fails by name when one goes; `pyproject.toml` bounds the version.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from types import SimpleNamespace
from typing import Any

import keras
from keras.src.backend.common import global_state
from keras.src.layers.rnn.dropout_rnn_cell import DropoutRNNCell
from keras.src.random.seed_generator import GLOBAL_SEED_GENERATOR

METRICS = ("_metrics", "_loss_tracker", "_compile_metrics")
"""Where a layer lists the metrics that its attributes hold, and a compiled model has those of Keras' `fit`."""


def layers_in(layer: keras.Layer, *, include_self: bool = True) -> Iterator[keras.Layer]:
    """Yield the layers nested in a layer, at any depth, each once, in Keras' order; the layer itself first."""
    found: Iterator[keras.Layer] = layer._flatten_layers(include_self=include_self)
    return found


def slot_index(optimizer: Any, variable: Any) -> int:
    """Return the index of a variable's slots in an optimizer's lists of slots."""
    return int(optimizer._get_variable_index(variable))


def trained_by(optimizer: Any) -> Sequence[Any]:
    """Return the variables that an optimizer was built for."""
    trained: Sequence[Any] = optimizer._trainable_variables
    return trained


def updates(optimizer: Any) -> Any:
    """Return the variable that counts an optimizer's updates, also those that only accumulate gradients."""
    return optimizer._iterations.value


def adam_moments(optimizer: Any, index: int) -> tuple[keras.Variable, keras.Variable]:
    """Return Adam's first and second moment of the variable with this `slot_index`."""
    return optimizer._momentums[index], optimizer._velocities[index]


def global_seed_state() -> keras.Variable | None:
    """Return the state of `keras.random`'s global generator; None if nothing has drawn from it since the last reset."""
    generator = global_state.get_global_attribute(GLOBAL_SEED_GENERATOR)
    return generator.state if generator is not None else None


def no_masks_in_inference() -> None:
    """Have recurrent layers draw their dropout masks in training alone.

    Keras draws them in each call, and moves a seed on, also where it does not use them: `predict` would then change a
    variable.
    """
    for name in ("get_dropout_mask", "get_recurrent_dropout_mask"):
        own = getattr(DropoutRNNCell, name)
        if getattr(own, "__module__", "") != __name__:
            setattr(DropoutRNNCell, name, _in_training(own))


def _in_training(own: Callable[..., Any]) -> Callable[..., Any]:
    def mask(cell: Any, inputs: Any) -> Any:
        call = global_state.get_global_attribute("current_call_ctx")
        training = call is None or call.get_value("training")
        return own(cell, inputs) if keras.ops.is_tensor(training) or training else None

    return mask


class Shared:
    """Keras' state of the thread that makes this object, for other threads: policies, names and scopes.

    The global generator of `keras.random`, which any of them may be the first to need, goes from one to the next.
    """

    def __init__(self) -> None:
        state = vars(global_state.GLOBAL_STATE_TRACKER)
        self._state = {name: list(value) if isinstance(value, list) else value for name, value in state.items()}

    def adopt(self) -> None:
        """Take all of it over in a new thread."""
        for name, value in self._state.items():
            global_state.set_global_attribute(name, list(value) if isinstance(value, list) else value)

    def hand_over(self) -> None:
        """Leave the global generator to the thread that runs next."""
        self._state[GLOBAL_SEED_GENERATOR] = global_state.get_global_attribute(GLOBAL_SEED_GENERATOR)

    def take_over(self) -> None:
        """Use the global generator that another thread left."""
        global_state.set_global_attribute(GLOBAL_SEED_GENERATOR, self._state.get(GLOBAL_SEED_GENERATOR))


@contextmanager
def draws(drawing: Callable[[keras.Variable], AbstractContextManager[keras.Variable]]) -> Iterator[None]:
    """Make seed generators draw within `drawing(their state)`, from the state that it yields, in the block."""
    original = keras.random.SeedGenerator.next

    def next_seed(generator: Any, ordered: bool = True) -> Any:
        with drawing(generator.state) as state:
            return original(SimpleNamespace(state=state, backend=generator.backend), ordered)

    keras.random.SeedGenerator.next = next_seed
    try:
        yield
    finally:
        keras.random.SeedGenerator.next = original


def losses(layers: Sequence[keras.Layer]) -> Callable[[], None]:
    """Return a function that makes the losses that layers have added in their calls what they are now."""
    known = [(layer, list(layer._losses), set(layer._loss_ids)) for layer in layers]

    def restore() -> None:
        for layer, values, numbers in known:
            layer._losses.clear()
            layer._losses.extend(values)
            layer._loss_ids.clear()
            layer._loss_ids.update(numbers)

    return restore


def forget_losses(layers: Sequence[keras.Layer]) -> None:
    """Drop the losses that layers have added in their calls."""
    for layer in layers:
        layer._losses.clear()
        layer._loss_ids.clear()


def own_attributes(layer: keras.Layer) -> list[str]:
    """Return the names of the attributes that a layer's class sets besides Keras' own; none for Keras' own layers."""
    if type(layer).__module__.split(".")[0] == "keras":
        return []
    return [name for name in vars(layer) if name not in _attributes_of_any()]


@cache
def _attributes_of_any() -> frozenset[str]:
    return frozenset(vars(keras.Layer(name="any")))


def replace_moments(layer: keras.layers.BatchNormalization, moments: Callable[..., Any]) -> Callable[..., Any]:
    """Make a batch normalization use other moments, functions of (inputs, mask), and return its own."""
    own: Callable[..., Any] = layer._moments
    layer._moments = moments
    return own
