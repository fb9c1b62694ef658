"""Statistics of a column, computed in float64 over blocks of a fixed size.

    statistics = TrainStatistics(Dataset.open(Path("data/houses")))
    statistics["x"].mean           # float64, shape (2,): for rooms and area
    statistics["kind"].counts      # {"flat": 310, "house": 97}

The order of the additions is fixed and none is fused with a multiplication, so the results are identical to the bit
on every machine and however the column was written.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapeline.dataset.columns import Dataset, Feature
from tapeline.runtime.errors import InputError

BLOCK = 2**20
"""Values to read at a time."""


@dataclass(frozen=True)
class Moments:
    """The range, mean and population standard deviation of values of shape (any number, channels).

    Each of shape (channels,); `min` and `max` in the column's dtype, `mean` and `std` float64.
    """

    min: NDArray[Any]
    max: NDArray[Any]
    mean: NDArray[np.float64]
    std: NDArray[np.float64]


def moments(path: Path, channels: int = 1) -> Moments:
    """Return the moments of a column of numbers, in two passes. channels: the length of its last axis, or 1 for all."""
    values, total = 0, np.zeros(channels)
    lowest, highest = [], []
    for block in _channels(path, channels):
        values += block.shape[1]
        total = total + block.sum(axis=1, dtype=np.float64)
        lowest.append(block.min(axis=1) + 0)  # the order of -0.0 and 0.0 depends on the machine; +0 makes both 0.0
        highest.append(block.max(axis=1) + 0)
    mean = total / values
    squares, deviations = np.zeros(channels), np.empty((channels, 0))
    for block in _channels(path, channels):
        if deviations.shape != block.shape:  # else in memory that is there already
            deviations = np.empty(block.shape)
        np.subtract(block, mean[:, None], out=deviations, dtype=np.float64)
        squares = squares + np.square(deviations, out=deviations).sum(axis=1)
    return Moments(np.min(lowest, axis=0), np.max(highest, axis=0), mean, np.sqrt(squares / values))


def class_counts(path: Path, classes: int) -> NDArray[np.int64]:
    """Return how many examples of a label column each class has, shape (classes,)."""
    counts = np.zeros(classes, np.int64)
    for block in blocks(path):
        counts += np.bincount(block, minlength=classes)
    return counts


def blocks(path: Path, values: int = BLOCK) -> Iterator[NDArray[Any]]:
    """Yield a column's values, flat and in order, `values` at a time (the last block is shorter).

    Read, not memory-mapped: mapped pages of a large column would count as this process's memory.
    """
    with path.open("rb") as file:
        np.lib.format.read_magic(file)
        _, _, dtype = np.lib.format.read_array_header_1_0(file)
        while (block := np.fromfile(file, dtype, values)).size:
            yield block


def _channels(path: Path, channels: int) -> Iterator[NDArray[Any]]:
    """Yield a column's values as (channels, any number), contiguous, so that all channels are summed in one order."""
    for block in blocks(path, max(1, BLOCK // channels) * channels):
        numbers = block.view(np.uint8) if block.dtype == np.bool_ else block
        yield np.ascontiguousarray(numbers.reshape(-1, channels).T)


@dataclass(frozen=True)
class ColumnStatistics:
    """One column of the train split: `counts` for a label, the other four for any other feature.

    These four are float64, shape `feature.shape[-1:]`, over all training examples and all other axes: one number for a
    feature of shape (), two for one of shape (2,), one per channel for an image. They are computed in two passes over
    the column, at the first access to any of them.
    """

    name: str
    feature: Feature
    path: Path

    @property
    def mean(self) -> NDArray[np.float64]:
        """The mean, in the feature's unit. Raises `InputError` for a label, like the next three."""
        return self._of_last_axis(self._moments.mean)

    @property
    def std(self) -> NDArray[np.float64]:
        """The population standard deviation, in the feature's unit; 0 for a constant."""
        return self._of_last_axis(self._moments.std)

    @property
    def min(self) -> NDArray[np.float64]:
        """The smallest value."""
        return self._of_last_axis(self._moments.min)

    @property
    def max(self) -> NDArray[np.float64]:
        """The largest value."""
        return self._of_last_axis(self._moments.max)

    @property
    def counts(self) -> dict[str, int]:
        """Class name → training examples, in the order of the class ids; 0 for a class that has none.

        Raises `InputError` for a feature that is not a label.
        """
        if not self.feature.classes:
            raise InputError(
                f"statistics[{self.name!r}].counts: {self.name} is not a label; it has mean, std, min and max"
            )
        return dict(zip(self.feature.classes, self._counts.tolist(), strict=True))

    @cached_property
    def _counts(self) -> NDArray[np.int64]:
        return class_counts(self.path, len(self.feature.classes or ()))

    @cached_property
    def _moments(self) -> Moments:
        if self.feature.classes:
            raise InputError(f"statistics[{self.name!r}]: {self.name} is a label, which has only counts")
        return moments(self.path, self.feature.shape[-1] if self.feature.shape else 1)

    def _of_last_axis(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Return a float64 copy of shape `feature.shape[-1:]`: a number for a feature of shape ()."""
        copy: NDArray[np.float64] = values.astype(np.float64).reshape(self.feature.shape[-1:])[()]
        return copy


class TrainStatistics:
    """The statistics of a dataset's train split, by feature; each is computed once, on first access.

    features: column types to use instead of the dataset's, if a label is to have other classes.
    """

    def __init__(self, dataset: Dataset, features: Mapping[str, Feature] | None = None) -> None:
        self._dataset, self._features = dataset, features or dataset.features
        self._known: dict[str, ColumnStatistics] = {}

    def __getitem__(self, feature: str) -> ColumnStatistics:
        """Return a feature's statistics. Raises `InputError` for an unknown feature or a missing train split."""
        if feature not in self._known:
            path = self._dataset.path("train", feature)
            self._known[feature] = ColumnStatistics(feature, self._features[feature], path)
        return self._known[feature]
