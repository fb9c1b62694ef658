"""Detect a table's feature that looks like class ids although there is no `label`."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

MOST = 1000
"""Distinct values above which a feature is not a label."""


class LooksLikeIds:
    """Checks whether a scalar feature holds 0, 1, 2, ... or 1, 2, 3, ... without a gap, each several times."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._distinct: set[float] | None = set()
        self._rows = 0

    def add(self, values: NDArray[np.float32]) -> None:
        """Add more values."""
        if self._distinct is None:
            return
        self._rows += len(values)
        self._distinct.update(np.unique(values).tolist())
        if len(self._distinct) > MOST or any(value < 0 or value % 1 for value in self._distinct):
            self._distinct = None

    def notes(self) -> Iterator[str]:
        """Yield a line if the feature looks like class ids."""
        ids = sorted(self._distinct or ())
        if len(ids) < 2 or self._rows < 2 * len(ids) or ids[0] > 1 or ids[-1] - ids[0] != len(ids) - 1:
            return
        yield (
            f"feature {self._name!r} is stored as float32 and looks like class ids {ids[0]:g} to {ids[-1]:g}: "
            f"`label: {self._name}` makes it int64 classes if the table has integers from 0, "
            f"`integers: [{self._name}]` int64 numbers"
        )
