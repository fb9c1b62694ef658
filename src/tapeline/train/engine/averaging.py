"""An exponential moving average of the weights: kept alongside them, validated and exported in their place.

After each step `average += (1 - decay) * (weight - average)`, starting at the initial weights (Polyak and Juditsky
1992).
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import tensorflow as tf

from tapeline.recipe import variables

PREFIX = "ema/"


class Average:
    """The averages of a recipe's weights but integers; of narrow ones in float32: 16 bits would round steps to 0."""

    def __init__(self, weights: Mapping[str, tf.Variable], decay: float) -> None:
        self._decay = decay
        self._weights = {name: one for name, one in weights.items() if one.dtype.is_floating or one.dtype.is_complex}
        self._averages = {
            name: tf.Variable(value, trainable=False, name=f"ema_{number}")
            for number, (name, value) in enumerate(self._widened().items())
        }

    @property
    def state(self) -> dict[str, tf.Variable]:
        """The variables that a checkpoint must hold."""
        return {f"{PREFIX}{name}": average for name, average in self._averages.items()}

    def reset(self) -> None:
        """Restart the averages at the current weights."""
        variables.assign(self._averages, self._widened())

    def step(self) -> None:
        """Update the averages after one step. Graph-traceable."""
        for name, average in self._averages.items():
            average.assign_add((1.0 - self._decay) * (tf.cast(self._weights[name], average.dtype) - average))

    def values(self) -> dict[str, tf.Tensor]:
        """Return the averages under the weights' names, in the weights' types."""
        averages = variables.snapshot(self._averages)
        return {name: tf.cast(averages[name], weight.dtype) for name, weight in self._weights.items()}

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Let the recipe compute with the averages in the block, then restore the weights."""
        weights = variables.snapshot(self._weights)
        variables.assign(self._weights, self.values())
        try:
            yield
        finally:
            variables.assign(self._weights, weights)

    def _widened(self) -> dict[str, tf.Tensor]:
        """Return the weights in the types of their averages."""
        weights = variables.snapshot(self._weights)
        return {name: tf.cast(value, tf.float32) if value.dtype.size < 4 else value for name, value in weights.items()}
