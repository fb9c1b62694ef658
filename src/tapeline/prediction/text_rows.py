"""Rows of CSV and JSON lines as a model's inputs.

Arrow reads blocks in which nothing is in doubt. Any other block, and one in which Arrow finds a fault, is read by
Python: so values and refusals are Python's, whichever reads.
"""

import csv
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv as arrow_csv
from pyarrow import json as arrow_json

from tapeline.parsing import json_text
from tapeline.prediction.signature import MOST_COLUMNS, Inputs, Signature, few
from tapeline.prediction.text_blocks import Blocks
from tapeline.runtime import files
from tapeline.runtime.errors import InputError

STRIDE = 2**16
"""A block with a newline in each such part has no line that Python's CSV reader finds too long."""
DIGITS = 2**11
"""A number without a part of so many digits is none that Python refuses as too long."""
ARROW_BLOCK = 2**20
EXACT = 2.0**53
"""float64 represents every integer up to this one."""


def csv_rows(file: Path, signature: Signature) -> Iterator[Inputs]:
    """Yield the rows of a CSV file, some at once, of one shape. Raises `InputError` and `UnicodeDecodeError`."""
    with files.opened(file) as opened:
        blocks = Blocks(opened, file, bom=True, newline="")
        names = next(csv.reader(blocks.lines(), strict=True), [])
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
    if len(needed) > MOST_COLUMNS:
        raise InputError(f"{file}: the model takes too many values for a table: give .npy or .npz")
    if missing := [column for column in needed if column not in names]:
        raise InputError(f"{file} has no column {few(missing)}: it has {few(names)}")
    if twice := [column for column in needed if names.count(column) > 1]:
        raise InputError(f"{file} has more than one column {few(twice)}: leave one out")


class _Csv:
    """The columns of one file."""

    def __init__(self, file: Path, signature: Signature, names: Sequence[str]) -> None:
        self._file, self._signature, self._names = file, signature, names
        place = {name: number for number, name in enumerate(names)}
        self._places = {name: [place[one] for one in columns] for name, columns in signature.columns.items()}
        kinds = {name: _arrow_type(dtype) for name, dtype in signature.dtypes.items()}
        self._types = {str(at): kinds[name] for name, places in self._places.items() for at in places}
        self._blank: str | None = None
        """Where a file of one column has a blank line, until it is known whether a row follows."""
        self._whole = any(kind in INTEGERS.values() for kind in kinds.values())
        # A column that two inputs share would be read as one type only.
        self._plain = None not in kinds.values() and len(self._types) == sum(map(len, self._places.values()))

    def fast(self, block: bytes) -> Inputs | None:
        """Return all rows of a block; None if there is anything to look at closely."""
        if not self._plain or not _is_plain(block) or b'"' in block:
            return None
        if self._whole and (b"0x" in block or b"0X" in block):  # Arrow reads hexadecimal digits
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
            return {name: self._fitted(name, table) for name in self._places} if len(table) else None
        except (pa.ArrowException, InputError):  # Python names the place
            return None

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
        cells = np.array([[_cell(row[at], dtype, column, where) for at, column in places]])
        return self._signature.fitted(name, _shaped(cells, self._signature.shapes[name]), where)

    def _check_blank(self) -> None:
        """Raise `InputError` for a row after a blank line: of one column, that is a row without a value."""
        if self._blank:
            raise InputError(
                f'{self._blank} is blank, and {self._names[0]} is missing: give its value, "" for an empty text, or '
                "remove the line"
            )

    def _check_length(self, row: Sequence[str], where: str) -> None:
        """Raise `InputError` for a row with more or fewer values than there are columns."""
        if len(row) != len(self._names):
            raise InputError(
                f"{where} has {len(row)} values under {len(self._names)} columns: put a text with a comma into double "
                "quotes"
            )


INTEGERS = {f"{sign}int{bits}": getattr(pa, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)}


def _arrow_type(dtype: str) -> Any:
    """Return the type as which a cell is read; None for one that Arrow does not read as Python does.

    A float is rounded twice, as Python's is.
    """
    if dtype == "string":
        return pa.string()
    return pa.float64() if dtype in ("float16", "float32", "float64") else INTEGERS.get(dtype)


def _is_plain(block: bytes) -> bool:
    """Return whether each line of a block is short, and ends in a newline that is nothing else."""
    if b"\0" in block or block.count(b"\r") != block.count(b"\r\n"):
        return False
    if not all(block.find(b"\n", at, at + STRIDE) >= 0 for at in range(0, len(block) - STRIDE, STRIDE)):
        return False
    if len(block) - 1 - block.rfind(b"\n") > STRIDE:
        return False
    try:
        return block.isascii() or bool(block.decode())
    except UnicodeDecodeError:
        return False


def _has_blank_line(block: bytes) -> bool:
    return block.startswith((b"\n", b"\r\n")) or b"\n\n" in block or b"\n\r\n" in block


def _cell(text: str, dtype: str, column: str, where: str) -> float | int | str:
    try:
        return text if dtype == "string" else int(text) if "int" in dtype else float(text)
    except ValueError:
        raise InputError(f"{where}: {column} is {text!r:.80}, which is not a {dtype}") from None


def _shaped(cells: NDArray[Any], shape: Sequence[int | None]) -> NDArray[Any]:
    """Return rows of cells as examples, shape (rows, ...); left flat if their number does not fit `shape`."""
    count, width = cells.shape
    lengths = [1 if size is None else size for size in shape]
    if None in shape and 0 not in lengths:
        lengths[shape.index(None)] = width // (math.prod(lengths) or 1)
    return cells.reshape(count, *lengths) if math.prod(lengths) == width else cells


def json_rows(file: Path, signature: Signature) -> Iterator[Inputs]:
    """Yield the values of JSON lines, some at once, of one shape. Raises as `csv_rows` does."""
    with files.opened(file) as opened:
        blocks = Blocks(opened, file, bom=False, newline=None)
        schema = _schema(signature)
        while block := blocks.peek():
            if schema is not None and (found := _fast_json(block, schema, signature)) is not None:
                blocks.drop()
                yield found
            else:
                yield from _slow_json(blocks, file, signature)


def _slow_json(blocks: Blocks, file: Path, signature: Signature) -> Iterator[Inputs]:
    for line in blocks.lines():
        if line.strip():
            yield _json_row(line, f"{file}, line {blocks.line}", file, signature)
        if blocks.between:
            return


def _json_row(line: str, where: str, file: Path, signature: Signature) -> Inputs:
    try:
        row = json_text.parsed(line, finite=False)
    except json_text.NotJson as error:
        raise InputError(f"{where} is not JSON: {error}") from None
    if not isinstance(row, dict):
        row = {signature.only(file): row}
    if missing := [name for name in signature.shapes if name not in row]:
        raise InputError(f"{where} has no {', '.join(missing)}: its keys are {', '.join(map(str, row))}")
    try:
        return {name: signature.fitted(name, np.asarray([row[name]]), where) for name in signature.shapes}
    except ValueError:
        raise InputError(f"{where}: a list has parts of different lengths") from None


def _schema(signature: Signature) -> pa.Schema | None:
    """Return the types as which Arrow reads the inputs; None if there is one that it does not read."""
    fields = []
    for name, shape in signature.shapes.items():
        kind = None if signature.dtypes[name] == "string" else _arrow_type(signature.dtypes[name])
        if kind is None:
            return None
        for _ in shape:
            kind = pa.list_(kind)
        fields.append((name, kind))
    return pa.schema(fields)


def _fast_json(block: bytes, schema: pa.Schema, signature: Signature) -> Inputs | None:
    """Return all lines of a block; None if there is anything to look at closely."""
    lines = block if block.endswith(b"\n") else block + b"\n"
    count = lines.count(b"\n")
    # Lines that begin and end so, as many as there are values, have one whole value each.
    if not lines.startswith(b"{") or lines.count(b"\n{") != count - 1 or lines.count(b"}\n") != count:
        return None
    if b"\\" in lines or b"\r" in lines or not _is_plain(lines):
        return None
    if any(lines[at : at + DIGITS].isdigit() for at in range(0, len(lines), DIGITS)):
        return None
    options = arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="infer")
    try:
        table = arrow_json.read_json(pa.BufferReader(lines), arrow_json.ReadOptions(block_size=ARROW_BLOCK), options)
        if len(table) != count or any(map(_is_nested, table.schema.types[len(schema) :])):
            return None
        found = {name: _values(table[name].combine_chunks(), schema.field(name).type) for name in signature.shapes}
        if any(one is None for one in found.values()):
            return None
        return {name: signature.fitted(name, values, "") for name, values in found.items()}
    except (pa.ArrowException, InputError):
        return None


def _is_nested(kind: Any) -> bool:
    """Return whether a value of another key could be nested, and how deeply nobody knows."""
    return bool(pa.types.is_nested(kind))


def _values(column: Any, kind: Any) -> NDArray[Any] | None:
    """Return a column of lists as one array; None if something is missing, or lengths differ."""
    shape = [len(column)]
    while pa.types.is_list(kind):
        lengths = np.diff(column.offsets.to_numpy())
        if column.null_count or not len(lengths) or lengths.min() != lengths.max() or not lengths[0]:
            return None
        shape.append(int(lengths[0]))
        column, kind = column.flatten(), kind.value_type
    if column.null_count:
        return None
    values: NDArray[Any] = column.to_numpy()
    if values.dtype.kind == "f" and not (np.abs(values) < EXACT).all():
        return None  # Python has large integers of its own
    return values.reshape(shape)
