"""Statistics of a column for `dataset.json`."""

from pathlib import Path
from typing import Any

from tapeline.dataset.columns import Feature
from tapeline.dataset.statistics import class_counts, moments


def describe(path: Path, feature: Feature) -> dict[str, Any]:
    """Return `counts` per class for a label column, else `min`, `max`, `mean` and population `std` of all values."""
    if feature.classes:
        return {"counts": class_counts(path, len(feature.classes)).tolist()}
    found = moments(path)
    return {name: getattr(found, name)[0].item() for name in ("min", "max", "mean", "std")}
