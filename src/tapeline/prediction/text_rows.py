"""Rows of CSV as a model's inputs.

Arrow reads blocks in which nothing is in doubt. Any other block, and one in which Arrow finds a fault, is read by
Python: so values and refusals are Python's, whichever reads.
"""

import csv
import math
import re
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv as arrow_csv

from tapeline.prediction.signature import MAX_COLUMNS, Inputs, Signature, exact, has_infinity, shortened
from tapeline.prediction.text_blocks import ARROW_BLOCK, INTEGERS, Blocks, arrow_type, is_plain
from tapeline.runtime import files
from tapeline.runtime.errors import InputError


def csv_rows(file: Path, signature: Signature) -> Iterator[Inputs]:
    """Yield the rows of a CSV file, some at once, of one shape. Raises `InputError` and `UnicodeDecodeError`."""
    with files.opened(file) as opened:
        blocks = Blocks(opened, file, newline="")
        names = next(filter(None, csv.reader(blocks.lines(), strict=True)), [])
        _check_names(file, names, signature)
        table = _Csv(file, signature, names)
        blocks.give_back()
        while block := blocks.peek():
            if (found := table.fast(block)) is not None:
                blocks.drop()
                yield found
            else:
                yield from table.slow(blocks)


def _check_names(file: Path, names: Sequence[str], signature: Signature) -> None:
    needed = [column for columns in signature.columns.values() for column in columns]
    if len(needed) > MAX_COLUMNS:
        raise InputError(f"{file}: the model takes too many values for a table: use .npy or .npz")
    counts = Counter(names)
    if missing := [column for column in needed if not counts[column]]:
        found = re.search(r"[;\t|]", names[0]) if len(names) == 1 else None
        comma = f"; its separator is {found[0]!r}: save it with commas" if found else ""
        raise InputError(f"{file} has no column {shortened(missing)}: it has {shortened(names)}{comma}")
    if twice := [column for column in needed if counts[column] > 1]:
        raise InputError(f"{file} has more than one column {shortened(twice)}: remove one")


BOOLEANS = {"true": True, "false": False, "1": True, "0": False}
"""How a boolean is written, in any case: pandas and spreadsheets write it as a word."""
_INTEGER = re.compile(r"[+-]?[0-9]+(\.0+)?")


class _Csv:
    """The columns of one file."""

    def __init__(self, file: Path, signature: Signature, names: Sequence[str]) -> None:
        self._file, self._signature, self._names = file, signature, names
        place = {name: number for number, name in enumerate(names)}
        self._places = {name: [place[one] for one in columns] for name, columns in signature.columns.items()}
        kinds = {name: arrow_type(dtype) for name, dtype in signature.dtypes.items()}
        self._types = {str(at): kinds[name] for name, places in self._places.items() for at in places}
        self._blank: str | None = None
        """Where a file of one column has a blank line, until it is known whether a row follows."""
        self._whole = any(kind in INTEGERS.values() for kind in kinds.values())
        # A column that two inputs share would be read as one type only.
        self._plain = None not in kinds.values() and len(self._types) == sum(map(len, self._places.values()))

    def fast(self, block: bytes) -> Inputs | None:
        """Return all rows of a block; None if there is anything to look at closely."""
        if not self._plain or not is_plain(block) or b'"' in block:
            return None
        if self._whole and (b"0x" in block or b"0X" in block):  # Arrow reads hexadecimal digits
            return None
        if block.startswith(BOM_UTF8):  # only one at the beginning of a file means nothing, and Arrow leaves out any
            return None
        if b"(" in block and b"nan(" in block.lower():  # Arrow takes it for a number
            return None
        if len(self._names) == 1 and (self._blank or _has_blank_line(block)):  # Arrow leaves it out
            return None
        try:
            table = arrow_csv.read_csv(
                pa.BufferReader(block),
                arrow_csv.ReadOptions(column_names=[str(at) for at in range(len(self._names))], block_size=ARROW_BLOCK),
                arrow_csv.ParseOptions(quote_char=False),
                arrow_csv.ConvertOptions(
                    check_utf8=False, column_types=self._types, include_columns=list(self._types), null_values=[]
                ),
            )
            found = {name: self._fitted(name, table) for name in self._places} if len(table) else None
        except (pa.ArrowException, InputError):  # Python names the place
            return None
        # Infinity is written there, or a number is too large.
        return None if found is None or any(map(has_infinity, found.values())) else found

    def _fitted(self, name: str, table: pa.Table) -> NDArray[Any]:
        places = self._places[name]
        first = table[str(places[0])].to_numpy()
        cells = np.empty((len(table), len(places)), first.dtype)
        for number, at in enumerate(places):
            cells[:, number] = table[str(at)].to_numpy()
        return self._signature.fitted(name, _shaped(cells, self._signature.shapes[name]), "")

    def slow(self, blocks: Blocks) -> Iterator[Inputs]:
        """Yield row by row, to the end of the block or of a row that goes beyond it."""
        before = blocks.line
        rows = csv.reader(blocks.lines(), strict=True)
        for row in rows:
            where = f"{self._file}, line {before + rows.line_num}"
            if row:
                self._check_blank()
                self._check_length(row, where)
                yield {name: self._one(name, row, where) for name in self._places}
            elif len(self._names) == 1:
                self._blank = self._blank or where
            if blocks.between:
                return

    def _one(self, name: str, row: Sequence[str], where: str) -> NDArray[Any]:
        dtype, columns = self._signature.dtypes[name], self._signature.columns[name]
        places = zip(self._places[name], columns, strict=True)
        cells = exact([[_cell(row[at], dtype, column, where) for at, column in places]], dtype, where)
        return self._signature.fitted(name, _shaped(cells, self._signature.shapes[name]), where)

    def _check_blank(self) -> None:
        """Raise `InputError` for a row after a blank line: of one column, that is a row without a value."""
        if self._blank:
            raise InputError(
                f'{self._blank} is blank, so {self._names[0]} is missing: write its value, "" for an empty text, or '
                "remove the line"
            )

    def _check_length(self, row: Sequence[str], where: str) -> None:
        """Raise `InputError` for a row with more or fewer values than there are columns."""
        if len(row) != len(self._names):
            raise InputError(
                f"{where} has {len(row)} values for {len(self._names)} columns: put text that has a comma in double "
                "quotes"
            )


def _has_blank_line(block: bytes) -> bool:
    return block.startswith((b"\n", b"\r\n")) or b"\n\n" in block or b"\n\r\n" in block


def _cell(text: str, dtype: str, column: str, where: str) -> float | int | str:
    """Return a cell as a value, as ingest reads one: Python alone would take `1_000`, and digits of any script."""
    if dtype == "string":
        return text
    plain = text.strip()
    if dtype == "bool" and plain.lower() in BOOLEANS:
        return BOOLEANS[plain.lower()]
    try:
        if dtype == "bool" or not plain.isascii() or "_" in plain or ("int" in dtype and not _INTEGER.fullmatch(plain)):
            raise ValueError(text)
        value = int(plain.partition(".")[0]) if "int" in dtype else float(plain)
    except ValueError:
        raise InputError(f"{where}: {column} is {text!r:.80}, which is not a {dtype}") from None
    if isinstance(value, float) and math.isinf(value) and "inf" not in plain.lower():
        raise InputError(f"{where}: {column} is {text!r:.80}, which is too large for a {dtype}")
    return value


def _shaped(cells: NDArray[Any], shape: Sequence[int | None]) -> NDArray[Any]:
    """Return rows of cells as examples, shape (rows, ...); left flat if their number does not fit `shape`."""
    count, width = cells.shape
    lengths = [1 if size is None else size for size in shape]
    if None in shape and 0 not in lengths:
        lengths[shape.index(None)] = width // (math.prod(lengths) or 1)
    return cells.reshape(count, *lengths) if math.prod(lengths) == width else cells
