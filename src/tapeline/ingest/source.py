"""What every kind of source gives: the columns' types and the examples.

    source.features                      # {"image": Feature((8, 8, 1), "uint8"), "label": ...}
    for examples in source.examples:
        examples.columns["image"]        # uint8, (len(examples.keys), 8, 8, 1)

Examples come in a fixed order, a piece at a time.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapeline.dataset.columns import Feature
from tapeline.runtime.errors import InputError

PIECE_BYTES = 8 * 2**20
PIECE_EXAMPLES = 1024
SPLITS = ("train", "val", "test")
NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)*")


@dataclass(frozen=True)
class Examples:
    """Some consecutive examples of one split: a key each, and the columns, (examples, *feature shape)."""

    split: str
    keys: Sequence[str]
    columns: Mapping[str, NDArray[Any]]
    own_keys: bool = True
    """Whether the keys are the source's own, by which the validation cut goes; else they are places, for messages."""

    def select(self, chosen: NDArray[np.bool_], split: str) -> "Examples":
        """Return the chosen examples, in order, as examples of `split`."""
        keys = [key for key, take in zip(self.keys, chosen, strict=True) if take]
        return Examples(split, keys, {name: values[chosen] for name, values in self.columns.items()}, self.own_keys)


@dataclass(frozen=True)
class Source:
    """An opened source. `examples` can be iterated once."""

    origin: Mapping[str, Any]
    """What `dataset.json` says about where the data came from: no time, no place on this machine."""
    features: Mapping[str, Feature]
    splits: tuple[str, ...]
    """The splits that the source says it has; each must turn out to hold examples."""
    examples: Iterable[Examples]
    total: int | None = None
    """How many examples there are in all, where that is known beforehand."""
    validation_cut: bool = False
    """Whether `val` is cut already as the settings' `validation` asks, so that the stage must not cut another."""
    notes: list[str] = field(default_factory=list)
    """What people are to be told, one line each. Complete when all examples were read."""


def piece(features: Mapping[str, Feature]) -> int:
    """Return how many examples are held at a time: at most `PIECE_BYTES`, at most `PIECE_EXAMPLES`, at least one."""
    size = sum(math.prod(feature.shape) * np.dtype(feature.dtype).itemsize for feature in features.values())
    return max(1, min(PIECE_EXAMPLES, PIECE_BYTES // max(size, 1)))


def chosen_features(available: Iterable[str], columns: tuple[str, ...] | None, *, of: str) -> list[str]:
    """Return the features to keep, in the source's order. Raises `InputError` for an unknown or unusable name."""
    names = list(available)
    for name in columns or ():
        if name not in names:
            raise InputError(f"{of} has no feature {name!r} to keep as `columns` says: it has {', '.join(names)}")
    kept = [name for name in names if columns is None or name in columns]
    for name in kept:
        if not NAME.fullmatch(name):
            raise InputError(
                f"{of}: feature {name!r} becomes a file of that name: use letters, digits, '_', '-', '.', or drop it"
            )
    return kept


def split_name(name: str, *, of: str) -> str:
    """Return `train`, `val` or `test` for a source's own word; `validation` is `val`, any other an `InputError`."""
    if name == "validation":
        return "val"
    if name not in SPLITS:
        raise InputError(f"{of} has a split {name!r}: splits are called train, val (or validation) and test")
    return name
