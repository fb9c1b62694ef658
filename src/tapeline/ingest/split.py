"""The validation cut: which examples of `train` become `val`, as a pure function of each example's key.

Whatever else is in the dataset, an example stays on its side, and a larger fraction only adds to a smaller one.
"""

import hashlib
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from tapeline.ingest.source import Examples


def held_out(keys: Sequence[str], fraction: float) -> NDArray[np.bool_]:
    """Return for each key whether it goes to `val`: its SHA-256, read as a number in [0, 1), is below `fraction`.

    >>> held_out(["0", "1", "2", "3"], 0.5).tolist()
    [True, True, False, True]
    """
    bound = fraction * 2.0**64
    numbers = (int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") for key in keys)
    return np.fromiter((number < bound for number in numbers), dtype=bool, count=len(keys))


def cut(examples: Examples, fraction: float) -> Iterator[Examples]:
    """Yield examples of `train` as those that stay and those that move to `val`; any other split as it came."""
    if examples.split != "train" or fraction == 0.0:
        yield examples
        return
    moved = held_out(examples.keys, fraction)
    yield examples.select(~moved, "train")
    yield examples.select(moved, "val")
