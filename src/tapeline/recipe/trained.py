"""A recipe as training left it: rebuilt, with the kept weights."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tapeline.dataset.columns import Dataset
from tapeline.dataset.statistics import TrainStatistics
from tapeline.recipe import Recipe, bundles, loading, variables


def load(recipe: Path, params: Mapping[str, Any], dataset: Dataset, folder: Path) -> Recipe:
    """Return the recipe with the weights of `folder/weights`, computing in float32.

    Raises `InputError` if the weights are missing or do not match the recipe exactly.
    """
    built = loading.build(recipe, params, dataset.features, statistics=TrainStatistics(dataset))
    weights = variables.find(built).weights
    variables.assign(weights, bundles.read(folder / "weights" / bundles.WEIGHTS, weights))
    return built
