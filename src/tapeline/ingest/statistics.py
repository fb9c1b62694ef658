"""What a column holds, in a few numbers, computed in float64 over blocks of a fixed size.

The order of the additions is fixed and none is fused with a multiplication, so the numbers are the same bits
on every machine and however the column was written.
"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapeline.dataset import Feature
from tapeline.ingest.columns import blocks


def describe(path: Path, feature: Feature) -> dict[str, Any]:
    """Return `counts` per class of a label column, else `min`, `max`, `mean` and population `std` over all values."""
    if feature.classes:
        counts = sum(np.bincount(block, minlength=len(feature.classes)) for block in blocks(path))
        return {"counts": np.asarray(counts).tolist()}
    values, total = 0, 0.0
    lowest, highest = [], []
    for block in _numbers(path):
        values += block.size
        total += float(np.sum(block, dtype=np.float64))
        lowest.append(block.min().item() + 0)  # which of -0.0 and 0.0 is less depends on the machine: +0 makes them one
        highest.append(block.max().item() + 0)
    mean = total / values
    squares = sum(float(np.sum(np.square(block.astype(np.float64) - mean))) for block in _numbers(path))
    return {"min": min(lowest), "max": max(highest), "mean": mean, "std": math.sqrt(squares / values)}


def _numbers(path: Path) -> Iterator[NDArray[Any]]:
    for block in blocks(path):
        yield block.view(np.uint8) if block.dtype == np.bool_ else block
