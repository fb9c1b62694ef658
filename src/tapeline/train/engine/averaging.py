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
    """The averages of a recipe's floating-point weights."""

    def __init__(self, weights: Mapping[str, tf.Variable], decay: float) -> None:
        self._decay = decay
        self._weights = {name: weight for name, weight in weights.items() if weight.dtype.is_floating}
        self._averages = {
            name: tf.Variable(weight, trainable=False, name=f"ema_{number}")
            for number, (name, weight) in enumerate(self._weights.items())
        }

    @property
    def state(self) -> dict[str, tf.Variable]:
        """The variables that a checkpoint must hold."""
        return {f"{PREFIX}{name}": average for name, average in self._averages.items()}

    def reset(self) -> None:
        """Restart the averages at the current weights."""
        variables.assign(self._averages, variables.snapshot(self._weights))

    def step(self) -> None:
        """Update the averages after one step. Graph-traceable."""
        for name, average in self._averages.items():
            average.assign_add((1.0 - self._decay) * (self._weights[name] - average))

    def values(self) -> dict[str, tf.Tensor]:
        """Return the averages under the weights' names."""
        return variables.snapshot(self._averages)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Let the recipe compute with the averages in the block, then restore the weights."""
        weights = variables.snapshot(self._weights)
        variables.assign(self._weights, self.values())
        try:
            yield
        finally:
            variables.assign(self._weights, weights)
