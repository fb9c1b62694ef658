"""Unusable cells of a table: counted over all columns, with the first few named in a one-line message."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tapeline.runtime.errors import InputError

TOLD = 4
"""Cells that a message names, including the first one."""
COUNTED = 1000
"""Bad cells after which reading a table stops."""
SHOWN = 60
"""Characters of a value that a message shows."""


@dataclass(frozen=True)
class BadCell:
    """One bad cell; `row` is counted from 1, below the header."""

    of: str
    """The table and column."""
    row: int
    value: object
    what: str
    """What is wrong, as in "is not a number"."""

    def __str__(self) -> str:
        return f"{self.of}, row {self.row} below the header: {self._said()} {self.what}"

    def briefly(self) -> str:
        """Return the row and the value."""
        return f"{self.of.partition(': ')[2]} row {self.row} {self._said()}"

    def _said(self) -> str:
        if self.value is None:
            return "the value"
        said = repr(self.value)
        return said if len(said) <= SHOWN else f"{said[:SHOWN]}... ({len(str(self.value)):,} characters)"


class BadCells(Exception):
    """The bad cells of some rows of one column."""

    def __init__(self, cells: list[BadCell], *, remedy: str) -> None:
        super().__init__(str(cells[0]))
        self.cells, self.remedy = cells, remedy


@dataclass
class Collected:
    """The bad cells of a whole table, of which only the first few are kept.

    >>> with collected.column():
    ...     numbers = cells.numbers()
    """

    first: list[BadCell] = field(default_factory=list)
    count: int = 0
    remedy: str = ""

    @property
    def full(self) -> bool:
        """Whether there are enough bad cells to stop reading."""
        return self.count >= COUNTED

    @contextmanager
    def column(self) -> Iterator[None]:
        """Collect the bad cells raised in the block."""
        try:
            yield
        except BadCells as error:
            self.remedy = self.remedy or error.remedy
            self.count += len(error.cells)
            self.first = [*self.first, *error.cells][:TOLD]

    def refuse(self) -> None:
        """Raise `InputError` if there is a bad cell."""
        if not self.count:
            return
        message = f"{self.first[0]}; {self.remedy}"
        if self.count > 1:
            others = ", ".join(cell.briefly() for cell in self.first[1:])
            total = f"{COUNTED:,} or more" if self.full else str(self.count)
            more = ", ..." if self.count > len(self.first) else ""
            message += f" ({total} bad cells; also {others}{more})"
        raise InputError(message)
