"""Answers as lines of CSV and JSON, formatted a column at a time.

A float has the fewest digits that give the same bits when they are read back as its type: 0.1, and not 0.10000000149.
"""

import json
import math
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tapeline.prediction.inputs import Piece
from tapeline.runtime.errors import InputError

Form = Literal["csv", "jsonl"]

EXPONENT = 1e10
"""From here on, Arrow writes a float with an exponent, below it a whole one without a point."""
JSON_WORDS = {"true": "true", "false": "false", "nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
CSV_WORDS = {"true": "True", "false": "False", "nan": "nan", "inf": "inf", "-inf": "-inf"}
"""As Python's writers spell them."""
FORMULA = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")
"""What a formula begins with in a spreadsheet. Class names, texts and file names may be anybody's."""


class Lines:
    """Writes to an open file, in UTF-8: one line per example, starting with its file and its index in that file."""

    def __init__(self, file: IO[bytes], form: Form, mark: Mapping[str, Any] | None = None) -> None:
        """Write to a file from its beginning, or from where `mark` said that it was; what follows that is cut off."""
        self._file, self._form, self._header = file, form, b""
        if mark is not None:
            self._header = str(mark["header"]).encode()
            truncate_to(file, mark["bytes"])

    def render(self, pieces: Sequence[Piece], answers: Mapping[str, NDArray[Any]]) -> tuple[bytes, Any]:
        """Return the header (empty for JSON) and the lines. answers: output → values of shape (examples, ...).

        For any thread, in any order.
        """
        if self._form == "jsonl":
            return b"", _text(_json_rows(pieces, answers))
        names = ["file", "row", *(name for output, values in answers.items() for name in _columns(output, values))]
        if twice := [name for name, count in Counter(names).items() if count > 1]:
            raise InputError(f"two outputs of this model have the column {twice[0]!r}: choose one with --outputs")
        return (",".join(map(_csv_text, names)) + "\n").encode(), _text(_csv_rows(pieces, answers))

    def write(self, rendered: tuple[bytes, Any]) -> None:
        """Write what `render` returned. Raises `InputError` for other columns than those before."""
        header, lines = rendered
        if not self._header:
            self._file.write(header)
        elif header != self._header:
            raise InputError(
                "the outputs of this model vary in length, which a table cannot hold: use --out with a .jsonl file"
            )
        self._header = header
        self._file.write(lines)

    def mark(self) -> dict[str, Any]:
        """Return where the file is, for a later start."""
        return {"header": self._header.decode(), "bytes": synced_size(self._file)}

    def close(self) -> None:
        """Do nothing but flush: a text needs no end."""
        self._file.flush()


def synced_size(file: IO[bytes]) -> int:
    """Bring what was written to the disk, and return how many bytes it is."""
    file.flush()
    os.fsync(file.fileno())
    return file.tell()


def truncate_to(file: IO[bytes], size: int) -> None:
    """Cut a file off after `size` bytes, and go there. Raises `ValueError` for one that is shorter."""
    if os.fstat(file.fileno()).st_size < size:
        raise ValueError(f"fewer than {size} bytes")
    file.truncate(size)
    file.seek(size)


def texts(values: NDArray[Any]) -> list[str]:
    """Return texts as TensorFlow or NumPy have them; bytes that are not UTF-8 become question marks."""
    return [one.decode("utf-8", errors="replace") if isinstance(one, bytes) else str(one) for one in values.ravel()]


def shown(file: Path) -> str:
    """Return a file's name as text; bytes that are not UTF-8 become question marks."""
    return os.fsencode(file).decode("utf-8", errors="replace")


def _csv_rows(pieces: Sequence[Piece], answers: Mapping[str, NDArray[Any]]) -> pa.Array:
    count = sum(map(len, pieces))
    parts = [file_names(pieces, _csv_text), _cells(row_numbers(pieces), "csv")]
    parts += [_joined(_cells(values, "csv"), count, ",") for values in answers.values() if values.size]
    return _beside(*parts, separator=",")


def _json_rows(pieces: Sequence[Piece], answers: Mapping[str, NDArray[Any]]) -> pa.Array:
    parts: list[Any] = ['{"file": ', file_names(pieces, json.dumps), ', "row": ', _cells(row_numbers(pieces), "jsonl")]
    for name, values in answers.items():
        parts += [f", {json.dumps(name)}: ", _lists(values)]
    return _beside(*parts, "}")


def _lists(values: NDArray[Any]) -> pa.Array:
    """Return one JSON value per example: nested lists for all axes but the first."""
    found = _cells(values, "jsonl")
    for axis in range(values.ndim - 1, 0, -1):
        inner = _joined(found, math.prod(values.shape[:axis]), ", ")
        found = _beside("[", inner, "]")
    return found


def _cells(values: NDArray[Any], form: Form) -> pa.Array:
    """Return the values, in order, as texts."""
    words = JSON_WORDS if form == "jsonl" else CSV_WORDS
    if values.dtype.kind == "f":
        return _floats(np.ravel(values), words)
    if values.dtype.kind == "b":
        return pc.if_else(pa.array(np.ravel(values)), _large(words["true"]), _large(words["false"]))
    if values.dtype.kind in "iu":
        return pc.cast(pa.array(np.ravel(values)), pa.large_string())
    if values.dtype.kind == "c" and form == "jsonl":
        raise InputError(
            "this model returns complex numbers, which JSON does not support: use --out with a .csv or .npz file"
        )
    quoted = json.dumps if form == "jsonl" else _csv_text
    return pa.array([quoted(one) for one in texts(values)], pa.large_string())


def _floats(values: NDArray[Any], words: Mapping[str, str]) -> pa.Array:
    if values.dtype.itemsize < 4:
        values = _halves()[values.astype(np.float16).view(np.uint16)]
    found = pc.cast(pa.array(values), pa.large_string())
    with np.errstate(invalid="ignore"):  # signalling NaNs
        whole = (values == np.trunc(values)) & (np.abs(values) < EXPONENT)
    if whole.any():  # else JSON would make a whole number of it, and lose the sign of zero
        found = pc.if_else(pa.array(whole), _beside(found, ".0"), found)
    if not np.isfinite(values).all():
        for odd, word in ((np.isnan(values), "nan"), (values == np.inf, "inf"), (values == -np.inf, "-inf")):
            found = pc.if_else(pa.array(odd), _large(words[word]), found)
    return found


@cache
def _halves() -> NDArray[np.float64]:
    """Return each float16 by its bits, as the float64 with the fewest digits that give it back; whole numbers as such.

    Arrow writes no float16.
    """
    halves = np.arange(2**16).astype(np.uint16).view(np.float16)
    exact, shortest = halves.astype(np.float64), halves.astype(np.str_).astype(np.float64)
    return np.where(exact == np.trunc(exact), exact, shortest)


def _beside(*parts: Any, separator: str = "") -> pa.Array:
    """Return each text of a column beside those of the others; a single text stands in every row."""
    return pc.binary_join_element_wise(*map(_large, parts), _large(separator))


def _joined(cells: pa.Array, count: int, separator: str) -> pa.Array:
    """Return `count` texts, each of equally many cells."""
    width = len(cells) // count if count else 0
    offsets = np.arange(count + 1, dtype=np.int64) * width
    return pc.binary_join(pa.LargeListArray.from_arrays(pa.array(offsets), cells), _large(separator))


def file_names(pieces: Sequence[Piece], quoted: Callable[[str], str]) -> pa.Array:
    """Return the name of its file for each example."""
    return pa.concat_arrays([pa.repeat(_large(quoted(shown(piece.file))), len(piece)) for piece in pieces])


def row_numbers(pieces: Sequence[Piece]) -> NDArray[np.int64]:
    """Return its index in its file for each example."""
    return np.concatenate([np.arange(piece.first, piece.first + len(piece), dtype=np.int64) for piece in pieces])


def _large(text: Any) -> Any:
    """Return a text as a scalar of the type that holds more than 2 GB; anything else as it is."""
    return pa.scalar(text, pa.large_string()) if isinstance(text, str) else text


def _text(rows: pa.Array) -> Any:
    """Return rows as the bytes of lines."""
    return _joined(_beside(rows, "\n"), 1, "")[0].as_buffer() if len(rows) else b""


def _csv_text(text: str) -> str:
    """Return a text as a cell. What a spreadsheet would compute gets an apostrophe before it, as its users write."""
    if text.lstrip(" ")[:1] in FORMULA and not _is_number(text):
        text = f"'{text}"
    return '"' + text.replace('"', '""') + '"' if any(one in text for one in '",\r\n') else text


def _is_number(text: str) -> bool:
    """Return whether a text is a number to a spreadsheet: Python alone reads `-1_000`, and digits of any script."""
    try:
        return text.isascii() and "_" not in text and math.isfinite(float(text))
    except ValueError:
        return False


def _columns(output: str, values: NDArray[Any]) -> Iterator[str]:
    if values.ndim == 1:
        yield output
    else:
        yield from (f"{output}.{number}" for number in range(int(np.prod(values.shape[1:]))))
