"""Read the cells of one table column as labels or numbers; bad cells are reported with row and value."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tapeline.ingest.bad_cells import COUNTED, BadCell, BadCells
from tapeline.runtime.errors import InputError

WHOLE = re.compile(r"[+-]?[0-9]+")
POINTED = re.compile(r"[+-]?[0-9]+(\.0+)?")
"""Whole numbers as pandas writes them in a column of floats, too."""
EXACT = 2.0**24
"""float32 represents every integer up to this one, and only some beyond."""
BEYOND = 2.0**63
"""No float from here on is a 64-bit integer."""
MEND = "fix the row or drop it"
USABLE = "a feature needs numbers: integers, floats, decimals, booleans, or text that holds numbers"
TEXT = (
    "most of the column is text: it can be the `label` or the `split` column; for a feature write numbers, or leave "
    "the column out"
)
KEEP = "keep the feature as int64 with `integers`, or store it in smaller units"
ROUNDED = f"a whole number that float32 rounds: {KEEP}"
ALL_WHOLE = f"a whole number that float32 rounds, in a column without fractions: {KEEP}"
ALL_ZERO = "the column has no number that float32 can tell from 0: store it in smaller units"


@dataclass
class Doubts:
    """Cells of which only the whole column tells whether float32 loses what matters in them.

    Whole numbers among floats that it rounds are a mistake unless the column is of measurements. It is if a float has a
    fraction or is beyond 64 bits. A number that becomes 0 is one if so does every other.
    """

    measured: bool = False
    rounded: list[BadCell] = field(default_factory=list)
    nonzero: bool = False
    vanished: BadCell | None = None
    """The first number that becomes 0."""

    def add(self, later: "Doubts", first: int) -> None:
        """Add what was found in later rows, whose numbers were counted from `first`."""
        self.measured = self.measured or later.measured
        some = later.rounded[: COUNTED - len(self.rounded)]
        self.rounded = [] if self.measured else [*self.rounded, *(replace(one, row=one.row + first) for one in some)]
        self.nonzero = self.nonzero or later.nonzero
        if later.vanished is not None and self.vanished is None:
            self.vanished = replace(later.vanished, row=later.vanished.row + first)

    def refuse(self) -> None:
        """Raise `BadCells` for what float32 loses."""
        if self.rounded:
            raise BadCells(self.rounded, remedy=ALL_WHOLE)
        if self.vanished is not None and not self.nonzero:
            raise BadCells([self.vanished], remedy=ALL_ZERO)


@dataclass(frozen=True)
class Cells:
    """Consecutive rows of a column, from a CSV (then they are text) or a Parquet file."""

    values: pa.Array
    first: int
    """The first row's number in the table, counted from 0."""
    of: str
    """The table and column, for messages."""

    def words(self) -> pa.Array:
        """Return names or integers as trimmed text, dictionary-encoded if the column is.

        Raises `BadCells` for missing or blank ones.
        """
        check_words(self.values.type, self.of)
        self._refuse_missing()
        encoded = pa.types.is_dictionary(self.values.type)
        words = pc.utf8_trim_whitespace(pc.cast(self.values.dictionary if encoded else self.values, pa.string()))
        blank = np.asarray(pc.equal(words, ""))
        if not encoded:
            self._refuse(blank, "is blank")
            return words
        if blank.any():  # a dictionary may have what no row has
            self._refuse(blank[self.values.indices.to_numpy()], "is blank")
        return pa.DictionaryArray.from_arrays(self.values.indices, words)

    def numbers(self, doubts: Doubts | None = None) -> NDArray[np.float32]:
        """Return the values as float32.

        Raises `BadCells` for a value that is missing, not a number, or not finite as float32, and for an integer that
        float32 would round: that is expected of a decimal fraction, but not of a count or an identifier. Of floats,
        only a whole column tells which they are; `doubts` takes what these rows say, without it they are the column.
        """
        kind = self.values.type
        if kind in (pa.float32(), pa.float64()) and not self.values.null_count:
            numbers = self.values.to_numpy(zero_copy_only=False)
        else:
            numbers = self._cast(pa.float64(), "is not a number", is_number)
        with np.errstate(over="ignore"):
            result: NDArray[np.float32] = numbers.astype(np.float32, copy=False)
        self._refuse(~np.isfinite(result), "is not finite as float32")
        self._refuse_rounded(result)
        found = self._doubts(numbers, result)
        if doubts is None:
            found.refuse()
        else:
            doubts.add(found, 0)
        return result

    def integers(self) -> NDArray[np.int64]:
        """Return the values as int64. Raises `BadCells` for a value that is missing or not a 64-bit integer."""
        result: NDArray[np.int64] = self._cast(pa.int64(), "is not a whole number of 64 bits", is_integer)
        return result

    def _cast(self, kind: Any, what: str, good: Callable[[object], bool]) -> NDArray[Any]:
        check_numbers(self.values.type, self.of)
        self._refuse_missing()
        values = self._decoded()
        text = _is_text(values.type)
        if text:
            values = pc.utf8_trim_whitespace(values)
        try:
            if text and pa.types.is_integer(kind):
                values = _digits(values)
            # Integers that float64 cannot hold are rounded here; `_refuse_rounded` compares the originals with float32.
            return np.asarray(pc.cast(values, kind, safe=kind == pa.int64()).to_numpy(zero_copy_only=False))
        except pa.ArrowInvalid:
            bad = np.array([not good(value) for value in values.to_pylist()])
            raise self._wrong(bad, what, TEXT if text and len(bad) > 1 and bad.mean() > 0.5 else MEND) from None

    def _refuse_rounded(self, result: NDArray[np.float32]) -> None:
        kind = self._decoded().type
        if not (_is_text(kind) or pa.types.is_integer(kind) or pa.types.is_decimal(kind)):
            return
        large = np.flatnonzero(np.abs(result) >= EXACT)
        if not len(large):
            return
        bad = np.zeros(len(result), bool)
        for row, value in zip(large, self._decoded().take(pa.array(large)).to_pylist(), strict=True):
            whole = whole_number(value)
            bad[row] = whole is not None and whole != int(result[row])
        if bad.any():
            stored = int(result[np.argmax(bad)])
            raise self._wrong(bad, f"would become {stored} as float32", ROUNDED)

    def _doubts(self, numbers: NDArray[Any], result: NDArray[np.float32]) -> Doubts:
        nonzero = bool(result[:64].any() or result.any())  # the first tell, as a rule
        if nonzero or not numbers.any():
            return replace(self._rounded(numbers, result), nonzero=nonzero)
        first = np.arange(len(numbers)) == np.argmax(numbers != 0)
        return Doubts(measured=True, vanished=self._wrong(first, "would become 0 as float32").cells[0])

    def _rounded(self, numbers: NDArray[Any], result: NDArray[np.float32]) -> Doubts:
        kind = self.values.type.value_type if pa.types.is_dictionary(self.values.type) else self.values.type
        if not (_is_text(kind) or pa.types.is_floating(kind)):
            return Doubts()
        if is_measured(numbers):
            return Doubts(measured=True)
        rows = np.flatnonzero((np.abs(numbers) >= EXACT) & (numbers != result))
        if not len(rows):
            return Doubts()
        bad = np.zeros(len(result), bool)
        bad[rows[:COUNTED]] = True
        return Doubts(rounded=self._wrong(bad, f"would become {int(result[rows[0]])} as float32").cells)

    def _decoded(self) -> Any:
        return self.values.dictionary_decode() if pa.types.is_dictionary(self.values.type) else self.values

    def _refuse_missing(self) -> None:
        if self.values.null_count:
            self._refuse(np.asarray(self.values.is_null()), "is missing")

    def _refuse(self, bad: NDArray[np.bool_], what: str) -> None:
        if bad.any():
            raise self._wrong(bad, what)

    def _wrong(self, bad: NDArray[np.bool_], what: str, remedy: str = MEND) -> BadCells:
        rows = np.flatnonzero(bad).tolist()
        return BadCells(
            [BadCell(self.of, self.first + row + 1, self.values[row].as_py(), what) for row in rows], remedy=remedy
        )


def _digits(values: pa.Array) -> pa.Array:
    """Return text of whole numbers without plus signs and `.0`, which Arrow takes in floats only.

    Raises `ArrowInvalid` for any other text: Arrow would read hexadecimal digits too.
    """
    if pc.all(pc.match_substring_regex(values, "^-?[0-9]+$"), min_count=0).as_py():
        return values
    if pc.all(pc.match_substring_regex(values, f"^{POINTED.pattern}$"), min_count=0).as_py():
        return pc.replace_substring_regex(values, r"^\+|\.0+$", "")
    raise pa.ArrowInvalid("not all are whole numbers")


def check_words(kind: Any, of: str) -> None:
    """Raise `InputError` for a column type that holds neither names nor integers."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not (_is_text(kind) or pa.types.is_integer(kind) or pa.types.is_null(kind)):
        raise InputError(f"{of} is {kind}: names or whole numbers are needed here")


def check_numbers(kind: Any, of: str) -> None:
    """Raise `InputError` for a column type that cannot be converted to numbers."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    types = pa.types
    numeric = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_boolean(kind)
    if not (numeric or _is_text(kind) or types.is_null(kind)):
        raise InputError(f"{of} is {kind}: {USABLE}")


def is_measured(numbers: NDArray[Any]) -> bool:
    """Return whether one of these floats, shape (count,), has a fraction or is beyond 64 bits."""
    return any(
        not np.array_equal(np.rint(some), some) or bool(np.abs(some).max(initial=0) >= BEYOND)
        for some in (numbers[:64], numbers)  # the first tell, as a rule
    )


def is_number(value: object) -> bool:
    """Return whether Arrow reads a value as a number."""
    try:
        pc.cast(pa.scalar(value), pa.float64(), safe=False)
    except pa.ArrowInvalid:
        return False
    return True


def is_integer(value: object) -> bool:
    """Return whether a value is a 64-bit integer."""
    whole = whole_number(value, points=True)
    return whole is not None and -(2**63) <= whole < 2**63


def whole_number(value: Any, *, points: bool = False) -> int | None:
    """Return digits as text, or a number, as an unbounded Python integer; None if the value is not an integer.

    points: whether a float such as 5.0 counts as an integer.
    """
    if isinstance(value, str):
        text = value.strip()
        form = POINTED if points else WHOLE
        return int(text.partition(".")[0]) if form.fullmatch(text) and len(text) < 1000 else None
    if isinstance(value, float) and not points:
        return None
    try:
        whole = int(value)
    except (OverflowError, ValueError):
        return None
    return whole if whole == value else None


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
