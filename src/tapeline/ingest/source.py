"""What every kind of source provides: the column types and the examples.

    source.features                      # {"image": Feature((8, 8, 1), "uint8"), "label": ...}
    for examples in source.examples:
        examples.columns["image"]        # uint8, (len(examples.keys), 8, 8, 1)

Examples come in a fixed order, a piece at a time.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from tapeline.dataset.columns import LONGEST_NAME, Feature
from tapeline.runtime.errors import InputError

PIECE_BYTES = 8 * 2**20
PIECE_EXAMPLES = 1024
SPLITS = ("train", "val", "test")
NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)*")


@dataclass(frozen=True)
class Examples:
    """Consecutive examples of one split: their keys, and columns of shape (examples, *feature shape)."""

    split: str
    keys: Sequence[str]
    columns: Mapping[str, NDArray[Any]]
    own_keys: bool = True
    """Whether the keys are the source's, for the validation split; otherwise they are positions, for messages."""

    def select(self, chosen: NDArray[np.bool_], split: str) -> "Examples":
        """Return the selected examples, in order, as examples of `split`."""
        keys = [key for key, take in zip(self.keys, chosen, strict=True) if take]
        return Examples(split, keys, {name: values[chosen] for name, values in self.columns.items()}, self.own_keys)


class RowNumbers(Sequence[str]):
    """Row numbers as keys, which become text when one is asked for: few of a table's ever are."""

    def __init__(self, numbers: range) -> None:
        self._numbers = numbers

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> "RowNumbers": ...
    def __getitem__(self, place: int | slice) -> "str | RowNumbers":
        return RowNumbers(self._numbers[place]) if isinstance(place, slice) else str(self._numbers[place])


@dataclass(frozen=True)
class Source:
    """An opened source. `examples` can be iterated once."""

    origin: Mapping[str, Any]
    """The origin of the data for `dataset.json`, without times or paths of this machine."""
    features: Mapping[str, Feature]
    splits: tuple[str, ...]
    """The declared splits; each must turn out to have examples."""
    examples: Iterable[Examples]
    total: int | None = None
    """The total number of examples, if known beforehand."""
    validation_cut: bool = False
    """Whether the source already applied the `validation` setting, so that the stage must not split again."""
    notes: list[str] = field(default_factory=list)
    """Notes for the user, one line each. Complete once all examples have been read."""


def piece(features: Mapping[str, Feature]) -> int:
    """Return how many examples to hold at a time: at most `PIECE_BYTES`, at most `PIECE_EXAMPLES`, at least one."""
    size = sum(math.prod(feature.shape) * np.dtype(feature.dtype).itemsize for feature in features.values())
    return max(1, min(PIECE_EXAMPLES, PIECE_BYTES // max(size, 1)))


def chosen_features(available: Iterable[str], columns: tuple[str, ...] | None, *, of: str) -> list[str]:
    """Return the features to keep, in the source's order. Raises `InputError` for an unknown or unusable name."""
    names = list(available)
    for name in columns or ():
        if name not in names:
            raise InputError(f"{of} has no feature {name!r}, which `columns` lists: it has {', '.join(names)}")
    kept = [name for name in names if columns is None or name in columns]
    for name in kept:
        if not NAME.fullmatch(name):
            raise InputError(
                f"{of}: feature {name!r} becomes a file of that name: use only letters, digits, '_', '-' and '.', or "
                "drop it"
            )
        if any(len(part.encode()) > LONGEST_NAME for part in f"{name}.npy".split("/")):
            raise InputError(f"{of}: feature {name[:30] + '...'!r} is too long for the name of its file: shorten it")
        if inside := [other for other in kept if other.startswith(f"{name}.npy/")]:
            raise InputError(
                f"{of}: feature {name!r} becomes the file {name}.npy, and {inside[0]!r} needs a folder of that name: "
                "rename one"
            )
    return kept


def split_name(name: str, *, of: str) -> str:
    """Return `train`, `val` or `test` for a source's split name; `validation` is `val`, any other an `InputError`."""
    if name == "validation":
        return "val"
    if name not in SPLITS:
        raise InputError(f"{of} has a split {name!r}: name splits train, val (or validation) and test")
    return name
