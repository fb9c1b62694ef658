"""Tasks of few-shot regression: sine waves of random amplitude and phase (Finn et al. 2017, section 5.1).

Each example is a task: ten points to learn from and a hundred to be judged by. Amplitudes are uniform in 0.1..5,
phases in 0..π, x in -5..5. There is no `train` split: a recipe draws the tasks that it learns from.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

TASKS = {"val": 100, "test": 600}
POINTS = {"support": 10, "query": 100}


class Sinusoids(tfds.core.GeneratorBasedBuilder):
    """The points of a task, (points, 1) each."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self) -> Any:
        features = {
            f"{part}_{axis}": tfds.features.Tensor(shape=(points, 1), dtype=np.float32)
            for part, points in POINTS.items()
            for axis in "xy"
        }
        features_dict = tfds.features.FeaturesDict(features)
        return tfds.core.DatasetInfo(builder=self, features=features_dict, disable_shuffling=True)

    def _split_generators(self, dl_manager: Any) -> dict[str, Iterator[tuple[int, dict[str, Any]]]]:
        return {split: self._generate_examples(seed, count) for seed, (split, count) in enumerate(TASKS.items())}

    def _generate_examples(self, seed: int, count: int) -> Iterator[tuple[int, dict[str, Any]]]:
        random = np.random.default_rng(seed)
        for key in range(count):
            amplitude, phase = random.uniform(0.1, 5.0), random.uniform(0.0, np.pi)
            example: dict[str, Any] = {}
            for part, points in POINTS.items():
                x = random.uniform(-5.0, 5.0, (points, 1)).astype(np.float32)
                example |= {f"{part}_x": x, f"{part}_y": (amplitude * np.sin(x + phase)).astype(np.float32)}
            yield key, example
