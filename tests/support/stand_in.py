"""Two datasets of the TFDS catalogue, as it were: importing this module registers them. They need no network."""

import numpy as np
import tensorflow_datasets as tfds


class StandIn(tfds.core.GeneratorBasedBuilder):
    """Pictures of one size with a label."""

    VERSION = tfds.core.Version("1.2.0")

    def _info(self):
        features = {"picture": tfds.features.Image(shape=(8, 8, 1)), "kind": tfds.features.ClassLabel(names=["a", "b"])}
        return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict(features))

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples(0, 60), "test": self._generate_examples(60, 80)}

    def _generate_examples(self, start, end):
        for number in range(start, end):
            yield number, {"picture": np.full((8, 8, 1), number, np.uint8), "kind": number % 2}


class StandInText(StandIn):
    """No picture."""

    def _info(self):
        features = {"text": tfds.features.Text(), "kind": tfds.features.ClassLabel(names=["a", "b"])}
        return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict(features))
