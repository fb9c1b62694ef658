"""Rows of JSON lines as a model's inputs.

Arrow reads blocks in which nothing is in doubt, and Python any other, as of CSV (`text_rows`).
"""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import json as arrow_json

from tapeline.parsing import json_text
from tapeline.prediction.signature import LARGEST_EXACT, Inputs, Signature, exact, has_infinity
from tapeline.prediction.text_blocks import ARROW_BLOCK, Blocks, arrow_type, is_plain
from tapeline.runtime import files
from tapeline.runtime.errors import InputError

DIGITS = 2**11
"""A number without a part of so many digits is none that Python refuses as too long."""


def json_rows(file: Path, signature: Signature) -> Iterator[Inputs]:
    """Yield the values of JSON lines, some at once, of one shape. Raises `InputError` and `UnicodeDecodeError`."""
    with files.opened(file) as opened:
        blocks = Blocks(opened, file, newline=None)
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
        cells = {name: exact([row[name]], signature.dtypes[name], where) for name in signature.shapes}
        found = {name: signature.fitted(name, values, where) for name, values in cells.items()}
    except ValueError:
        raise InputError(f"{where}: the parts of a list differ in length") from None
    for name, values in found.items():
        if has_infinity(values) and _overflows(line, name):
            raise InputError(f"{where}: {name} has values that are too large for {signature.dtypes[name]}")
    return found


def _overflows(line: str, name: str) -> bool:
    """Return whether an input of a usable line has a number that only becomes infinity, as `Infinity` itself is not."""
    row = json.loads(line, parse_float=lambda word: None if math.isinf(float(word)) else 0.0)
    values = np.asarray(row[name] if isinstance(row, dict) else row, dtype=object)
    return None in values.ravel().tolist()


def _schema(signature: Signature) -> pa.Schema | None:
    """Return the types as which Arrow reads the inputs; None if there is one that it does not read."""
    fields = []
    for name, shape in signature.shapes.items():
        kind = None if signature.dtypes[name] == "string" else arrow_type(signature.dtypes[name])
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
    if b"\\" in lines or b"\r" in lines or not is_plain(lines):
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
    if values.dtype.kind == "f" and not (np.abs(values) < LARGEST_EXACT).all():
        return None  # Python has large integers of its own
    return values.reshape(shape)
