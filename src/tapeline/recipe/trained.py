"""A recipe as training left it: built again, with the kept weights."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tapeline.dataset.columns import Dataset
from tapeline.dataset.statistics import TrainStatistics
from tapeline.recipe import Recipe, loading, variables


def load(recipe: Path, params: Mapping[str, Any], dataset: Dataset, folder: Path) -> Recipe:
    """Return the recipe with the weights of `folder/weights`, computing in float32.

    Raises `InputError` when the weights are missing or are not exactly this recipe's.
    """
    built = loading.build(recipe, params, dataset.features, statistics=TrainStatistics(dataset))
    weights = variables.find(built).weights
    variables.assign(weights, variables.read_bundle(folder / "weights" / variables.BUNDLE, weights))
    return built
