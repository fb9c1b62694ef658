"""Split off fractions of a table's rows as `test` and, with strata, as `val`.

    cut = Fractions(test=0.2, validation=0.1)
    cut.places(range(5), keys)           # 0, 1 or 2 for each row: SPLITS[place]

The SHA-256 of each row's key (or content) decides. Without strata, added rows do not move others, and the stage takes
`validation` from the rows that `test` leaves. With strata, the rows with the lowest hashes in each stratum are taken,
copies of a row all or none, to the nearest possible count; an added row can then move another. The order of the rows
in the table has no effect.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from tapeline.ingest.source import SPLITS
from tapeline.ingest.split import held_out, numbers

TRAIN, VAL, TEST = map(SPLITS.index, ("train", "val", "test"))


class Keys:
    """Two hashes of each row's key: one for `test`, one for `validation` of the rest."""

    def __init__(self) -> None:
        self._test: list[NDArray[np.uint64]] = [np.empty(0, np.uint64)]
        self._validation = [np.empty(0, np.uint64)]

    def add(self, keys: Sequence[str]) -> None:
        """Add the keys of the next rows."""
        self._test.append(numbers(_test_keys(keys)))
        self._validation.append(numbers(keys))

    @property
    def test(self) -> NDArray[np.uint64]:
        """The hashes that decide which rows become `test`, shape (rows,)."""
        return np.concatenate(self._test)

    @property
    def validation(self) -> NDArray[np.uint64]:
        """The hashes that decide which rows become `val`, shape (rows,)."""
        return np.concatenate(self._validation)


class Fractions:
    """How to cut a table.

    strata: the stratum of every row, shape (rows,), for a stratified split; `keys` are then of the same rows.
    """

    def __init__(
        self, *, test: float, validation: float, strata: NDArray[np.int64] | None = None, keys: Keys | None = None
    ) -> None:
        self._test = test
        self._assigned = None
        if strata is not None and keys is not None:
            self._assigned = _stratified(strata, keys, test, validation)

    def places(self, rows: Sequence[int], keys: Sequence[str]) -> NDArray[np.int64]:
        """Return the index in `SPLITS` of each row, given the row numbers and keys."""
        if self._assigned is not None:
            assigned: NDArray[np.int64] = self._assigned[np.asarray(rows)].astype(np.int64)
            return assigned
        return np.where(held_out(_test_keys(keys), self._test), TEST, TRAIN)


def _test_keys(keys: Iterable[str]) -> list[str]:
    """Return texts that differ from the keys, so that the later validation split is independent of this one."""
    return [f"test {key}" for key in keys]


def _stratified(strata: NDArray[np.int64], keys: Keys, test: float, validation: float) -> NDArray[np.uint8]:
    by_test, by_validation = keys.test, keys.validation
    assigned = np.full(len(strata), TRAIN, np.uint8)
    ordered = np.argsort(strata, kind="stable")
    for rows in np.split(ordered, np.flatnonzero(np.diff(strata[ordered])) + 1):
        tested = _lowest(rows, by_test, test)
        rest = np.setdiff1d(rows, tested)
        assigned[tested] = TEST
        assigned[_lowest(rest, by_validation, validation)] = VAL
    return assigned


def _lowest(rows: NDArray[np.int64], by: NDArray[np.uint64], fraction: float) -> NDArray[np.int64]:
    """Return about a fraction of `rows`, those with the lowest hashes; rows with equal hashes stay together."""
    ordered = rows[np.argsort(by[rows], kind="stable")]
    counts = np.append(np.flatnonzero(np.diff(by[ordered], prepend=by[ordered[:1]])), len(rows))
    counts = np.append(0, counts)
    return ordered[: counts[np.argmin(np.abs(counts - fraction * len(rows)))]]
