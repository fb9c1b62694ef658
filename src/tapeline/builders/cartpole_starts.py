"""Where episodes of Gymnasium's CartPole-v1 begin: the seed of `reset` and the state that it gives.

There is no `train` split: a recipe plays the episodes that it learns from.
"""

from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import tensorflow_datasets as tfds

SEEDS = {"val": range(1000, 1020), "test": range(100)}


class CartpoleStarts(tfds.core.GeneratorBasedBuilder):
    """A seed and a state: position, velocity, angle, angular velocity."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self) -> Any:
        features = {
            "seed": tfds.features.Scalar(np.int64),
            "state": tfds.features.Tensor(shape=(4,), dtype=np.float32),
        }
        features_dict = tfds.features.FeaturesDict(features)
        return tfds.core.DatasetInfo(builder=self, features=features_dict, disable_shuffling=True)

    def _split_generators(self, dl_manager: Any) -> dict[str, Iterator[tuple[int, dict[str, Any]]]]:
        return {split: self._generate_examples(seeds) for split, seeds in SEEDS.items()}

    def _generate_examples(self, seeds: range) -> Iterator[tuple[int, dict[str, Any]]]:
        world = gymnasium.make("CartPole-v1")
        for key, seed in enumerate(seeds):
            yield key, {"seed": seed, "state": world.reset(seed=seed)[0]}
