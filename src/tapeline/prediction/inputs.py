"""Files as batches of a model's inputs: `.npy`, `.npz`, CSV, JSON lines and images.

Nothing is guessed: values that do not fit the signature's shape and dtype are refused, naming their position. Pickle
is disabled.
"""

import contextlib
import csv
import io
import itertools
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from numpy.typing import NDArray

from tapeline.parsing import arrays, json_text
from tapeline.runtime import files
from tapeline.runtime.errors import InputError

IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".webp")
KINDS = (".npy", ".npz", ".csv", ".jsonl", *IMAGES)

MOST_COLUMNS = 100_000
"""Maximum number of columns of a table."""
SHOWN = 8
"""Maximum number of names in a message."""
LONGEST = 2**26
"""Maximum number of characters in a line of text."""

Inputs = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Piece:
    """Some consecutive examples of one file."""

    file: Path
    first: int
    """The index of its first example in the file, from 0."""
    inputs: Inputs
    """Input → values of shape (examples, ...)."""

    def __len__(self) -> int:
        return len(next(iter(self.inputs.values())))


@dataclass(frozen=True)
class Signature:
    """A model's inputs: their shapes (of one example; None for any length) and dtypes."""

    shapes: dict[str, tuple[int | None, ...]]
    dtypes: dict[str, str]
    columns: dict[str, list[str]]
    """Input → its columns in a table."""

    @classmethod
    def of(cls, inputs: Mapping[str, Any], tables: Mapping[str, str | Sequence[str]]) -> "Signature":
        """Return a signature of `model.json`. tables: the columns from which each feature of a table was made.

        Raises `InputError` for a signature without a batch dimension.
        """
        if any((spec["shape"] or [])[:1] != [None] for spec in inputs.values()):
            raise InputError("this model takes one fixed number of examples: call its SavedModel yourself")
        shapes = {name: tuple(spec["shape"][1:]) for name, spec in inputs.items()}
        columns = {}
        for name, shape in shapes.items():
            made_of = tables.get(name)
            width = math.prod(size or 1 for size in shape)
            plain = [name] if width == 1 else [f"{name}.{number}" for number in range(min(width, MOST_COLUMNS + 1))]
            columns[name] = plain if made_of is None else [made_of] if isinstance(made_of, str) else list(made_of)
        return cls(shapes, {name: spec["dtype"] for name, spec in inputs.items()}, columns)

    def only(self, file: Path) -> str:
        """Return the only input. Raises `InputError` if there are several."""
        if len(self.shapes) != 1:
            raise InputError(
                f"{file} holds one input and the model takes {', '.join(self.shapes)}: give .npz, CSV or JSON lines"
            )
        return next(iter(self.shapes))

    def fitted(self, name: str, values: Any, where: str) -> NDArray[Any]:
        """Return values as an input, shape (examples, ...). Raises `InputError` for values that do not fit."""
        wanted = self.shapes[name]
        try:
            array = np.asarray(values)
            if not _is_convertible(array, self.dtypes[name]):
                raise ValueError(name)
            with np.errstate(over="ignore", invalid="ignore"):  # the results are checked below
                cast = array.astype(object if self.dtypes[name] == "string" else self.dtypes[name])
        except (ValueError, TypeError, OverflowError):
            rule = "text" if self.dtypes[name] == "string" else f"{self.dtypes[name]} values"
            rule += f" of shape {shape_text(wanted)}" if wanted else ""
            raise InputError(f"{where}: {name} is {_shown(values)}; the model takes {rule}") from None
        if array.ndim != len(wanted) + 1 or any(
            w not in (None, s) for s, w in zip(array.shape[1:], wanted, strict=True)
        ):
            raise InputError(
                f"{where}: {name} has shape {shape_text(array.shape[1:])}, the model takes {shape_text(wanted)}"
            )
        if array.dtype == cast.dtype:
            return cast
        if np.issubdtype(cast.dtype, np.integer) and not np.array_equal(cast, array):
            least, most = np.iinfo(cast.dtype).min, np.iinfo(cast.dtype).max
            raise InputError(f"{where}: {name} has values that are not whole numbers from {least} to {most}")
        if np.issubdtype(cast.dtype, np.floating) and (np.isinf(cast) & np.isfinite(array.astype(np.float64))).any():
            raise InputError(f"{where}: {name} has values that are too large for {self.dtypes[name]}")
        return cast


@dataclass(frozen=True)
class Batch:
    """Consecutive examples of one file or several small ones, for one call of the model."""

    pieces: tuple[Piece, ...]
    inputs: Inputs

    def __len__(self) -> int:
        return sum(map(len, self.pieces))

    @classmethod
    def of(cls, pieces: Sequence[Piece]) -> "Batch":
        """Join pieces whose examples have the same shapes."""
        if len(pieces) == 1:
            return cls(tuple(pieces), pieces[0].inputs)
        names = pieces[0].inputs
        return cls(tuple(pieces), {name: np.concatenate([piece.inputs[name] for piece in pieces]) for name in names})


def check(given: Sequence[Path]) -> None:
    """Raise `InputError` for a path that does not exist or is not a file, and for a file of unknown kind."""
    for file in given:
        try:
            files.opened(file).close()
        except (FileNotFoundError, IsADirectoryError):
            raise InputError(f"{file}: no such file") from None
        except OSError as error:
            raise InputError(f"{file} cannot be read: {error.strerror}") from None
        if file.suffix.lower() not in KINDS:
            raise InputError(f"{file} is not of a kind that can be read: give one of {', '.join(KINDS)}")


def pieces(given: Sequence[Path], signature: Signature, batch_size: int) -> Iterator[Piece]:
    """Yield the files' examples in order, at most `batch_size` at once and never from two files."""
    for file in given:
        kind = file.suffix.lower()
        if kind in IMAGES:
            yield Piece(file, 0, {signature.only(file): _image(file, signature)})
        elif kind in (".npy", ".npz"):
            yield from _arrays(file, signature, batch_size)
        else:
            rows = _csv_rows(file, signature) if kind == ".csv" else _json_rows(file, signature)
            for first in itertools.count(0, batch_size):
                taken = _taken(file, rows, batch_size)
                if not taken:
                    break
                yield Piece(file, first, {name: _stacked(file, name, first, taken) for name in signature.shapes})


def batches(pieces: Iterable[Piece], batch_size: int) -> Iterator[Batch]:
    """Yield the pieces in order; those of small files are joined, up to `batch_size` examples of the same shapes."""
    waiting: list[Piece] = []
    for piece in pieces:
        count = sum(map(len, waiting)) + len(piece)
        if waiting and (count > batch_size or _shapes(piece) != _shapes(waiting[0])):
            yield Batch.of(waiting)
            waiting = []
        waiting.append(piece)
    if waiting:
        yield Batch.of(waiting)


def _shapes(piece: Piece) -> list[tuple[int, ...]]:
    return [values.shape[1:] for values in piece.inputs.values()]


def _taken(file: Path, rows: Iterator[Inputs], count: int) -> list[Inputs]:
    try:
        return list(itertools.islice(rows, count))
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not UTF-8: {error.reason}; save it as UTF-8") from None
    except csv.Error as error:
        raise InputError(
            f"{file} cannot be read as CSV: {error}; fix it, or look for a quote that is not closed"
        ) from None


def _stacked(file: Path, name: str, first: int, rows: Sequence[Inputs]) -> NDArray[Any]:
    wanted = rows[0][name].shape[1:]
    for number, row in enumerate(rows[1:], first + 1):
        if row[name].shape[1:] != wanted:
            raise InputError(
                f"{file}: {name} of example {number} has shape {shape_text(row[name].shape[1:])}, and that of example "
                f"{first}, in the same batch, {shape_text(wanted)}: give --batch-size 1, or lengths that are equal"
            )
    return np.concatenate([row[name] for row in rows])


def _arrays(file: Path, signature: Signature, batch_size: int) -> Iterator[Piece]:
    try:
        with files.opened(file) as opened:
            archive = opened.read(2) == b"PK"
        if archive:
            known = arrays.members(file)
            _check_names(file, known, signature)
            found = arrays.unpacked(file, signature.shapes)
        else:
            found = {signature.only(file): arrays.mapped(file)}
    except (arrays.NotArrays, OSError) as error:
        raise InputError(f"{file} is not a NumPy file without pickles: {error}") from None
    given = {}
    for name, shape in signature.shapes.items():  # an array of one example may omit the first axis
        given[name] = found[name][None] if found[name].ndim == len(shape) else np.atleast_1d(found[name])
    if len({len(values) for values in given.values()}) > 1:
        for name, values in given.items():  # an array without its last axis would be taken for one example
            signature.fitted(name, values[:1], str(file))
        lengths = few([f"{name} {len(values)}" for name, values in given.items()])
        raise InputError(f"{file} has inputs of different lengths: {lengths}")
    for start in range(0, len(next(iter(given.values()))), batch_size):
        parts = {name: values[start : start + batch_size] for name, values in given.items()}
        yield Piece(file, start, {name: signature.fitted(name, part, str(file)) for name, part in parts.items()})


def _check_names(file: Path, known: Sequence[str], signature: Signature) -> None:
    if missing := sorted(signature.shapes.keys() - known):
        raise InputError(f"{file} has {few(known)} and lacks {few(missing)}, which the model takes")


def _image(file: Path, signature: Signature) -> NDArray[Any]:
    from tapeline.ingest import jpeg
    from tapeline.ingest.pixels import MODES, decoded, upright  # imports Pillow, which no other kind of file needs

    name = signature.only(file)
    shape = signature.shapes[name]
    if len(shape) != 3 or shape[2] not in MODES:
        raise InputError(f"{file} is an image, and the model takes {name} of shape {shape_text(shape)}")
    content = files.read_bytes(file)
    with decoded(io.BytesIO(content), str(file)) as image:
        pixels = np.asarray(upright(image, shape[2]))
    if why := jpeg.damage(content):
        raise InputError(f"{file} seems damaged, so that some of its pixels would be made up: {why}; get it again")
    if any(w not in (None, s) for s, w in zip(pixels.shape[:2], shape[:2], strict=True)):
        height, width = pixels.shape[:2]
        raise InputError(f"{file} is {width}×{height}, the model takes {shape[1]}×{shape[0]}: scale it first")
    return signature.fitted(name, pixels.reshape(1, *pixels.shape[:2], shape[2]), str(file))


def _csv_rows(file: Path, signature: Signature) -> Iterator[Inputs]:
    with io.TextIOWrapper(files.opened(file), encoding="utf-8-sig", newline="") as opened:
        table = csv.DictReader(_lines(opened, file), strict=True)
        needed = [column for columns in signature.columns.values() for column in columns]
        names = list(table.fieldnames or ())
        if len(needed) > MOST_COLUMNS:
            raise InputError(f"{file}: the model takes too many values for a table: give .npy or .npz")
        if missing := [column for column in needed if column not in names]:
            raise InputError(f"{file} has no column {few(missing)}: it has {few(names)}")
        if twice := [column for column in needed if names.count(column) > 1]:
            raise InputError(f"{file} has more than one column {few(twice)}: leave one out")
        for row in table:
            where = f"{file}, line {table.line_num}"
            _check_length(row, names, where)
            found = {}
            for name, columns in signature.columns.items():
                cells = [_cell(row[column], signature.dtypes[name], column, where) for column in columns]
                found[name] = signature.fitted(name, _shaped(cells, signature.shapes[name]), where)
            yield found


def _check_length(row: Mapping[str | None, Any], names: Sequence[str], where: str) -> None:
    """Raise `InputError` for a row with more or fewer values than there are columns."""
    count = len(names) + len(row.get(None, ())) - sum(value is None for value in row.values())
    if count != len(names):
        raise InputError(
            f"{where} has {count} values under {len(names)} columns: put a text with a comma into double quotes"
        )


def _cell(text: str, dtype: str, column: str, where: str) -> float | int | str:
    try:
        return text if dtype == "string" else int(text) if "int" in dtype else float(text)
    except ValueError:
        raise InputError(f"{where}: {column} is {text!r:.80}, which is not a {dtype}") from None


def _shaped(cells: Sequence[float | int | str], shape: Sequence[int | None]) -> NDArray[Any]:
    """Return cells as one example, shape (1, ...); left flat if their number does not fit `shape`."""
    lengths = [1 if size is None else size for size in shape]
    if None in shape and 0 not in lengths:
        lengths[shape.index(None)] = len(cells) // (math.prod(lengths) or 1)
    values = np.array(cells)
    return values.reshape(1, *lengths) if math.prod(lengths) == len(cells) else values[None]


def _lines(opened: TextIO, file: Path) -> Iterator[str]:
    """Yield the lines of a file. Raises `InputError` for a line that would fill the memory."""
    for number in itertools.count(1):
        line = opened.readline(LONGEST + 1)
        if not line:
            return
        if len(line) > LONGEST:
            raise InputError(f"{file}, line {number} has more than {LONGEST:,} characters: give an .npy file")
        yield line


def _json_rows(file: Path, signature: Signature) -> Iterator[Inputs]:
    with io.TextIOWrapper(files.opened(file), encoding="utf-8") as opened:
        for number, line in enumerate(_lines(opened, file), 1):
            if not line.strip():
                continue
            where = f"{file}, line {number}"
            try:
                row = json_text.parsed(line, finite=False)
            except json_text.NotJson as error:
                raise InputError(f"{where} is not JSON: {error}") from None
            if not isinstance(row, dict):
                row = {signature.only(file): row}
            if missing := [name for name in signature.shapes if name not in row]:
                raise InputError(f"{where} has no {', '.join(missing)}: its keys are {', '.join(map(str, row))}")
            try:
                yield {name: signature.fitted(name, np.asarray([row[name]]), where) for name in signature.shapes}
            except ValueError:
                raise InputError(f"{where}: a list has parts of different lengths") from None


def _is_convertible(array: NDArray[Any], dtype: str) -> bool:
    """Return whether values convert to a dtype without guessing. Raises `ValueError` for text invalid in UTF-8."""
    text = array.dtype.kind in "SU" or (
        array.dtype == object and all(isinstance(one, str | bytes) for one in array.flat)
    )
    if dtype != "string":
        return not text and (array.dtype.kind != "c" or "complex" in dtype) and (dtype != "bool" or array.dtype == bool)
    if array.dtype.kind == "U":
        codes = np.ascontiguousarray(array).view(np.dtype("u4").newbyteorder(array.dtype.byteorder))
        return not ((codes > sys.maxunicode) | ((codes >= 0xD800) & (codes < 0xE000))).any()
    for one in array.flat if text else ():
        if isinstance(one, str):
            one.encode()
    return text or not array.size


def few(names: Sequence[str]) -> str:
    """Return names as a list, shortened: an image has thousands of columns."""
    return (
        ", ".join(names) or "nothing"
        if len(names) <= SHOWN
        else f"{', '.join(names[:SHOWN])}, ... ({len(names):,} in all)"
    )


def _shown(values: Any) -> str:
    """Return a single value, or the dtype and shape of several."""
    array = np.asarray(values)
    with contextlib.suppress(ValueError, SystemError):  # text with invalid code points
        if array.size == 1:
            return f"{array.item()!r:.60}"
    return f"{array.dtype} of shape {shape_text(array.shape[1:])}"


def shape_text(shape: Sequence[int | None]) -> str:
    """Return a shape as messages have it."""
    return "(" + ", ".join("any" if size is None else str(size) for size in shape) + ")"
