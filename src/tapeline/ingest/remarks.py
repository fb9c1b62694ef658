"""One-line notes about data that are accepted nevertheless: constant columns, odd classes."""

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapeline.dataset.columns import Feature
from tapeline.ingest.source import Examples
from tapeline.runtime.errors import first_few

NAMED = 3


def named(names: Sequence[str]) -> str:
    """Return the number of names and the first few of them, as in `3 (a, b, c)`."""
    return f"{len(names):,} ({first_few(names, NAMED)})"


def alike(classes: Sequence[str]) -> Iterator[str]:
    """Yield a line for class names that differ only in case, in Unicode normalization or in what nobody sees."""
    groups: dict[str, list[str]] = defaultdict(list)
    for name in classes:
        groups[_normal(_normal(_visible(name)).casefold())].append(name)
    for names in (names for names in groups.values() if len(names) > 1):
        normal, seen = {_normal(name) for name in names}, {_normal(_visible(name)) for name in names}
        hidden = "invisible characters" if len(seen) < len(normal) else "case"
        what = hidden if len(normal) > 1 else "Unicode normalization"
        yield f"classes {' and '.join(map(ascii, names))} differ in {what} only, and are {len(names)} classes"


def _normal(name: str) -> str:
    return unicodedata.normalize("NFC", name)


def _visible(name: str) -> str:
    """Return a name without characters of format, such as the space of no width."""
    return "".join(letter for letter in name if unicodedata.category(letter) != "Cf")


def single(feature: str, kind: Feature) -> Iterator[str]:
    """Yield a line for a label of one class."""
    if kind.classes and len(kind.classes) == 1:
        yield f"{feature} has one class, {kind.classes[0]!a}, in every example: there is nothing to tell apart"


def unlearned(feature: str, kind: Feature, statistics: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for classes that are in a held-out split but not in `train`."""
    if not kind.classes or "train" not in statistics:
        return
    train = statistics["train"][feature]["counts"]
    for split in (split for split in statistics if split != "train"):
        counts = statistics[split][feature]["counts"]
        missing = [name for name, here, there in zip(kind.classes, counts, train, strict=True) if here and not there]
        if missing:
            yield f"{feature}: classes that {split} has and train lacks: {named(missing)}"


def untested(feature: str, kind: Feature, statistics: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for classes that are in `train` but not in `test`."""
    if not kind.classes or not {"train", "test"} <= statistics.keys():
        return
    counts = zip(*(statistics[split][feature]["counts"] for split in ("train", "test")), strict=True)
    missing = [name for name, (there, here) in zip(kind.classes, counts, strict=True) if there and not here]
    if missing:
        yield f"{feature}: classes that train has and test lacks, and macro averages count as 0: {named(missing)}"


class Constants:
    """Tracks the columns of scalar and vector features, to report which ones are constant."""

    def __init__(self, features: Mapping[str, Feature]) -> None:
        self._followed = [name for name, kind in features.items() if len(kind.shape) <= 1 and not kind.classes]
        self._first: dict[str, NDArray[Any]] = {}
        self._same: dict[str, NDArray[np.bool_]] = {}
        self._examples: Counter[str] = Counter()

    def add(self, examples: Examples) -> None:
        """Add more examples."""
        for name in self._followed if len(examples.keys) else ():
            values = examples.columns[name]
            self._examples[name] += len(values)
            if name in self._same and not self._same[name].any():
                continue
            first = self._first.setdefault(name, values[0].copy())
            same = (values == first).all(axis=0)
            self._same[name] = self._same[name] & same if name in self._same else same

    def notes(self) -> Iterator[str]:
        """Yield a line for each feature with constant columns, if there is more than one example."""
        for name in self._followed:
            if self._examples[name] < 2:
                continue
            same, first = np.atleast_1d(self._same[name]), np.atleast_1d(self._first[name])
            places = np.flatnonzero(same).tolist()
            if places and not np.ndim(self._first[name]):
                yield f"feature {name!r} is {first[0]} in every example"
            elif places:
                columns = [f"{name}[{place}] is {first[place]}" for place in places]
                yield f"feature {name!r}: columns that are the same in every example: {named(columns)}"
