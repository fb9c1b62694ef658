"""The mean of each loss over the common steps."""

from collections.abc import Mapping
from typing import Any


class Means:
    """Adds up scalars by name."""

    def __init__(self) -> None:
        self._sums: dict[str, float] = {}
        self._count = 0

    def add(self, losses: Mapping[str, Any]) -> None:
        """Take one step's losses: anything that `float` takes."""
        self._count += 1
        for name, loss in losses.items():
            self._sums[name] = self._sums.get(name, 0.0) + float(loss)

    def values(self) -> dict[str, float]:
        """Return the means so far."""
        return {name: total / self._count for name, total in self._sums.items()}
