"""Sums of two three-digit numbers as text: "123+989" and "1112", or "123+456" and "579 ".

Pairs are drawn without repetition, and a pair and its mirror count as one, so that no sum of `test` or `val` was seen
in `train`, not the other way round either. Features are ASCII codes.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

SIZES = {"train": 45_000, "val": 1_000, "test": 5_000}
QUESTION, ANSWER = 7, 4


class Additions(tfds.core.GeneratorBasedBuilder):
    """A question and its answer, padded with spaces."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self) -> Any:
        features = {
            "question": tfds.features.Tensor(shape=(QUESTION,), dtype=np.uint8),
            "answer": tfds.features.Tensor(shape=(ANSWER,), dtype=np.uint8),
        }
        features_dict = tfds.features.FeaturesDict(features)
        return tfds.core.DatasetInfo(builder=self, features=features_dict, disable_shuffling=True)

    def _split_generators(self, dl_manager: Any) -> dict[str, Iterator[tuple[int, dict[str, Any]]]]:
        random = np.random.default_rng(0)
        first, second = np.triu_indices(900)
        chosen = random.choice(len(first), sum(SIZES.values()), replace=False)
        pairs = np.stack([first[chosen], second[chosen]], axis=1) + 100
        pairs = random.permuted(pairs, axis=1)
        ends = np.cumsum(list(SIZES.values()))
        parts = np.split(pairs, ends[:-1])
        return {split: self._generate_examples(part) for split, part in zip(SIZES, parts, strict=True)}

    def _generate_examples(self, pairs: Any) -> Iterator[tuple[int, dict[str, Any]]]:
        for key, (first, second) in enumerate(pairs.tolist()):
            texts = {"question": f"{first}+{second}", "answer": f"{first + second}".ljust(ANSWER)}
            yield key, {name: np.frombuffer(text.encode(), np.uint8) for name, text in texts.items()}
