"""The recipe of each test, trained on the same rows of images."""

import datasets
import pytest
import recipes
from sharding import Trained


@pytest.fixture
def blobs(tmp_path, tf):
    data = datasets.blobs(tmp_path / "blobs").folder

    def make(*edits, source=recipes.EVERYTHING, steps=1, **settings):
        recipe = recipes.write(tmp_path / "r", source, *edits)
        return Trained(tf, recipe, data, steps=steps, **settings)

    return make
