"""A model input that is in no dataset: the noise that a generator turns into images."""

from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray


class Noise:
    """Standard normal noise, float32 of shape (batch, *shape): `self.inputs = {"noise": Noise(100)}` in `build`."""

    dtype = "float32"

    def __init__(self, *shape: int) -> None:
        self.shape = shape

    def draw(self, examples: int, number: int = 0) -> NDArray[Any]:
        """Return noise for `examples` examples, the same at each call. number: the index among several noise inputs."""
        drawn: NDArray[np.float32] = tf.random.stateless_normal([examples, *self.shape], [0, number]).numpy()
        return drawn
