"""Fractions of a table's rows as `test`, and as `val` where every stratum shall have its share.

    cut = Fractions(test=0.2, validation=0.1)
    cut.places(range(5), keys)           # 0, 1 or 2 for each row: SPLITS[place]

SHA-256 decides, of the key (or content) of each row. Without strata, rows that are added leave the others where they
are; `validation` is then cut by the stage, out of what `test` leaves. With strata, the rows of each stratum with the
lowest numbers are taken, copies of a row all or none, to the nearest row that this allows; a row that is added can then
move another. Their order in the table moves none.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from tapeline.ingest.source import SPLITS
from tapeline.ingest.split import held_out, numbers

TRAIN, VAL, TEST = map(SPLITS.index, ("train", "val", "test"))


class Keys:
    """The keys of all rows of a table as two numbers each: one for `test`, one for `validation` of the rest."""

    def __init__(self) -> None:
        self._test: list[NDArray[np.uint64]] = [np.empty(0, np.uint64)]
        self._validation = [np.empty(0, np.uint64)]

    def add(self, keys: Sequence[str]) -> None:
        """Add the keys of the next rows."""
        self._test.append(numbers(_test_keys(keys)))
        self._validation.append(numbers(keys))

    @property
    def test(self) -> NDArray[np.uint64]:
        """By which rows become `test`, of shape (rows,)."""
        return np.concatenate(self._test)

    @property
    def validation(self) -> NDArray[np.uint64]:
        """By which rows become `val`, of shape (rows,)."""
        return np.concatenate(self._validation)


class Fractions:
    """How to cut a table.

    strata: the stratum of every row, where each shall have its share, of shape (rows,); `keys` are then those of
    the same rows.
    """

    def __init__(
        self, *, test: float, validation: float, strata: NDArray[np.int64] | None = None, keys: Keys | None = None
    ) -> None:
        self._test = test
        self._assigned = None
        if strata is not None and keys is not None:
            self._assigned = _stratified(strata, keys, test, validation)

    def places(self, rows: Sequence[int], keys: Sequence[str]) -> NDArray[np.int64]:
        """Return the place in `SPLITS` of each row, given by its number and its key."""
        if self._assigned is not None:
            assigned: NDArray[np.int64] = self._assigned[np.asarray(rows)].astype(np.int64)
            return assigned
        return np.where(held_out(_test_keys(keys), self._test), TEST, TRAIN)


def _test_keys(keys: Iterable[str]) -> list[str]:
    """Return other texts than the keys alone: the validation cut of the rest is then independent of this one."""
    return [f"test {key}" for key in keys]


def _stratified(strata: NDArray[np.int64], keys: Keys, test: float, validation: float) -> NDArray[np.uint8]:
    by_test, by_validation = keys.test, keys.validation
    assigned = np.full(len(strata), TRAIN, np.uint8)
    for stratum in np.unique(strata):
        rows = np.flatnonzero(strata == stratum)
        tested = _lowest(rows, by_test, test)
        rest = np.setdiff1d(rows, tested)
        assigned[tested] = TEST
        assigned[_lowest(rest, by_validation, validation)] = VAL
    return assigned


def _lowest(rows: NDArray[np.int64], by: NDArray[np.uint64], fraction: float) -> NDArray[np.int64]:
    """Return about a fraction of `rows`: those of the lowest numbers, and all that share a number or none of them."""
    ordered = rows[np.argsort(by[rows], kind="stable")]
    counts = np.append(np.flatnonzero(np.diff(by[ordered], prepend=by[ordered[:1]])), len(rows))
    counts = np.append(0, counts)
    return ordered[: counts[np.argmin(np.abs(counts - fraction * len(rows)))]]
