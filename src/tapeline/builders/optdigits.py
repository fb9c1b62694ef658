"""UCI optdigits: 1 797 handwritten digits of 8×8 pixels, from the copy that scikit-learn ships (no network).

The split is the one scikit-learn documents for it: the first 898 images are `train`, the last 899 `test`, in order.

E. Alpaydin, C. Kaynak: Optical Recognition of Handwritten Digits, UCI Machine Learning Repository, 1998,
https://doi.org/10.24432/C50P49
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

TRAIN = 898


class Optdigits(tfds.core.GeneratorBasedBuilder):
    """Images with values from 0 to 16 (how many of a pixel's 4×4 dots are inked) and the digit they show."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self) -> Any:
        features = {
            "image": tfds.features.Image(shape=(8, 8, 1), dtype=np.uint8),
            "label": tfds.features.ClassLabel(num_classes=10),
        }
        return tfds.core.DatasetInfo(
            builder=self,
            features=tfds.features.FeaturesDict(features),
            supervised_keys=("image", "label"),
            disable_shuffling=True,
        )

    def _split_generators(self, dl_manager: Any) -> dict[str, Iterator[tuple[int, dict[str, Any]]]]:
        from sklearn.datasets import load_digits

        digits = load_digits()
        images, labels = digits.images.astype(np.uint8)[..., np.newaxis], digits.target
        return {
            "train": self._generate_examples(images[:TRAIN], labels[:TRAIN]),
            "test": self._generate_examples(images[TRAIN:], labels[TRAIN:]),
        }

    def _generate_examples(self, images: Any, labels: Any) -> Iterator[tuple[int, dict[str, Any]]]:
        for key, (image, label) in enumerate(zip(images, labels, strict=True)):
            yield key, {"image": image, "label": int(label)}
