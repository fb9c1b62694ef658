"""What all rows of a table say about each column: whether ingest reads it as numbers, and whether these say anything.

Memory is bounded, whatever the size of the table.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapeline.ingest.bad_cells import BadCells
from tapeline.ingest.cells import Cells, Doubts
from tapeline.ingest.table_file import Rows, Table
from tapeline.runtime.errors import InputError

ROWS = 10_000
"""The most rows of a piece: a column that is text costs one look at each of its first piece's cells."""
REMEMBERED = 2**23
"""Whole numbers, of all columns, that are remembered to find two that are the same."""
INDEX, UNNAMED_INDEX = re.compile(r"__index_level_\d+__"), re.compile(r"(?i:unnamed: 0(\.\d+)?)?")
"""Names of the index of pandas: in Parquet, and in CSV, where other columns may lack a name, too."""
IDENTIFIER = re.compile(r"(?i:(?:^|[_ -])(?:id|index|key|no|nr)$|^row$)|[a-z]I[dD]$")
"""Names of a column that identifies the rows."""


class Column:
    """What is known about a column. Complete after `end`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.rows = 0
        self.refused: str | None = None
        """Why it does not hold numbers that ingest takes."""
        self.usable = True
        """Whether ingest takes its type, for names at least."""
        self._missing = 0
        self._doubts = Doubts()
        self._first: np.float32 | None = None
        self._same = True
        self._whole, self._differ = True, True
        self._low, self._high = 2**63, -(2**63)
        self._remembered: list[NDArray[np.int64]] = []

    @property
    def remembered(self) -> int:
        """How many of its numbers are in memory."""
        return sum(map(len, self._remembered))

    @property
    def useless(self) -> str | None:
        """Why it is of no use to predict anything, as in "it is constant"; None if it may be."""
        if not self.name and self._missing == self.rows:
            return "it has no name and no values, as where lines end with a comma"
        if INDEX.fullmatch(self.name) or (self._whole and UNNAMED_INDEX.fullmatch(self.name)):
            return "it is a row index, as pandas writes it"
        if self._whole and self._differ:
            if self._low in (0, 1) and self._high - self._low == self.rows - 1:
                return "it numbers the rows"
            if IDENTIFIER.search(self.name):
                return "it has a different whole number in each row, and the name of an identifier"
        return "it is constant" if self.refused is None and self._same else None

    def add(self, cells: Cells, *, remember: bool) -> None:
        """Add the next rows, at least one. remember: whether their numbers may be kept in memory."""
        self.rows += len(cells.values)
        self._missing += cells.values.null_count
        if self.refused is None:
            self._add_numbers(cells)
        if self._whole and (self._differ or UNNAMED_INDEX.fullmatch(self.name)):
            self._add_whole(cells, remember=remember)

    def end(self) -> None:
        """Decide what only the whole column tells."""
        try:
            self._doubts.refuse()
        except BadCells as error:
            self._refuse(error)
        self._differ = self._differ and _all_differ(np.concatenate([np.empty(0, np.int64), *self._remembered]))
        self._remembered = []

    def _add_numbers(self, cells: Cells) -> None:
        try:
            numbers = cells.numbers(self._doubts)
        except BadCells as error:
            self._refuse(error)
        except InputError as error:
            self.refused, self.usable = str(error).removeprefix(f"{cells.of} "), False
        else:
            self._first = numbers[0] if self._first is None else self._first
            self._same = self._same and bool((numbers == self._first).all())

    def _add_whole(self, cells: Cells, *, remember: bool) -> None:
        try:
            numbers = cells.integers()
        except (BadCells, InputError):
            self._whole, self._remembered = False, []
            return
        self._low, self._high = min(self._low, int(numbers.min())), max(self._high, int(numbers.max()))
        self._differ = self._differ and _all_differ(numbers)
        if not self._differ:
            self._remembered = []
        elif remember:
            self._remembered.append(numbers)

    def _refuse(self, error: BadCells) -> None:
        cell = error.cells[0]
        self.refused = self.refused or str(cell).removeprefix(f"{cell.of}, ")


def survey(table: Table, names: Sequence[str]) -> dict[str, Column]:
    """Return what all rows of a table say about the columns. Raises `InputError` for a table without rows."""
    columns = {name: Column(name) for name in names}
    for rows in pieces(table, names):
        remember = sum(column.remembered for column in columns.values()) < REMEMBERED
        for name, column in columns.items():
            column.add(rows.cells(name), remember=remember)
    if not all(column.rows for column in columns.values()):
        raise InputError(f"{table.path} has no rows")
    for column in columns.values():
        column.end()
    return columns


def pieces(table: Table, names: Sequence[str]) -> Iterator[Rows]:
    """Yield all rows of the given columns, at most `ROWS` at a time and at least one, in order."""
    for rows in table.rows(names):
        for first in range(0, rows.batch.num_rows, ROWS):
            yield replace(rows, batch=rows.batch.slice(first, ROWS), first=rows.first + first)


def _all_differ(numbers: NDArray[Any]) -> bool:
    ordered = np.sort(numbers)  # faster than `np.unique`, which hashes
    return not (ordered[1:] == ordered[:-1]).any()
