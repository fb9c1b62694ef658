"""Files as batches of a model's inputs: `.npy`, `.npz`, CSV, JSON lines and images.

Nothing is guessed: values that do not fit the signature's shape and dtype are refused with their place. Pickle is off.
"""

import csv
import itertools
import json
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapeline.errors import InputError

IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".webp")
KINDS = (".npy", ".npz", ".csv", ".jsonl", *IMAGES)

Batch = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Piece:
    """Some consecutive examples of one file."""

    file: Path
    first: int
    """The number of its first example in the file, from 0."""
    inputs: Batch
    """Input → values of shape (examples, ...)."""

    def __len__(self) -> int:
        return len(next(iter(self.inputs.values())))


@dataclass(frozen=True)
class Signature:
    """What a model takes: its inputs' shapes (of one example; None for any length) and dtypes."""

    shapes: dict[str, tuple[int | None, ...]]
    dtypes: dict[str, str]
    columns: dict[str, list[str]]
    """Input → the columns of a table that hold it."""

    @classmethod
    def of(cls, inputs: Mapping[str, Any], tables: Mapping[str, str | Sequence[str]]) -> "Signature":
        """Return a signature as `model.json` has it. tables: the columns that a table's features were made of.

        Raises `InputError` for one that takes no batches.
        """
        if any(spec["shape"][:1] != [None] for spec in inputs.values()):
            raise InputError("this model takes one fixed number of examples: call its SavedModel yourself")
        shapes = {name: tuple(spec["shape"][1:]) for name, spec in inputs.items()}
        columns = {}
        for name, shape in shapes.items():
            made_of = tables.get(name)
            width = int(np.prod([size or 1 for size in shape]))
            plain = [name] if width == 1 else [f"{name}.{number}" for number in range(width)]
            columns[name] = plain if made_of is None else [made_of] if isinstance(made_of, str) else list(made_of)
        return cls(shapes, {name: spec["dtype"] for name, spec in inputs.items()}, columns)

    def only(self, file: Path) -> str:
        """Return the one input. Raises `InputError` when there are several."""
        if len(self.shapes) != 1:
            raise InputError(
                f"{file} holds one input and the model takes {', '.join(self.shapes)}: give .npz, CSV or JSON lines"
            )
        return next(iter(self.shapes))

    def fitted(self, name: str, values: Any, where: str) -> NDArray[Any]:
        """Return values as an input, shape (examples, ...). Raises `InputError` for what does not fit."""
        wanted = self.shapes[name]
        try:
            array = np.asarray(values)
            with np.errstate(over="ignore", invalid="ignore"):  # what that leaves is looked at below
                cast = array.astype(object if self.dtypes[name] == "string" else self.dtypes[name])
        except (ValueError, TypeError, OverflowError):
            raise InputError(f"{where}: {name} must be {self.dtypes[name]} of shape {_shape(wanted)}") from None
        if array.ndim != len(wanted) + 1 or any(
            w not in (None, s) for s, w in zip(array.shape[1:], wanted, strict=True)
        ):
            raise InputError(f"{where}: {name} has shape {_shape(array.shape[1:])}, the model takes {_shape(wanted)}")
        if np.issubdtype(cast.dtype, np.integer) and not np.array_equal(cast, array):
            raise InputError(f"{where}: {name} has values that are no {self.dtypes[name]}")
        if np.issubdtype(cast.dtype, np.floating) and (np.isinf(cast) & np.isfinite(array.astype(np.float64))).any():
            raise InputError(f"{where}: {name} has values that are too large for {self.dtypes[name]}")
        return cast


def check(files: Sequence[Path]) -> None:
    """Raise `InputError` for a file that is not there or of no known kind."""
    for file in files:
        if not file.is_file():
            raise InputError(f"{file}: no such file")
        if file.suffix.lower() not in KINDS:
            raise InputError(f"{file} is of no kind that can be read: give one of {', '.join(KINDS)}")


def pieces(files: Sequence[Path], signature: Signature, batch_size: int) -> Iterator[Piece]:
    """Yield the files' examples in order, at most `batch_size` at once and never of two files."""
    for file in files:
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


def _taken(file: Path, rows: Iterator[Batch], count: int) -> list[Batch]:
    try:
        return list(itertools.islice(rows, count))
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not UTF-8: {error.reason}; save it as UTF-8") from None


def _stacked(file: Path, name: str, first: int, rows: Sequence[Batch]) -> NDArray[Any]:
    wanted = rows[0][name].shape
    for number, row in enumerate(rows[1:], first + 1):
        if row[name].shape != wanted:
            raise InputError(
                f"{file}: {name} of example {number} has shape {_shape(row[name].shape)}, and that of example {first}, "
                f"in the same batch, {_shape(wanted)}: give --batch-size 1, or lengths that are equal"
            )
    return np.stack([row[name] for row in rows])


def _arrays(file: Path, signature: Signature, batch_size: int) -> Iterator[Piece]:
    try:
        with file.open("rb") as opened:  # a damaged archive that NumPy has opened itself would stay open
            archive = opened.read(2) == b"PK"
            opened.seek(0)
            if archive:
                with np.load(opened, allow_pickle=False) as loaded:
                    arrays = {name: loaded[name] for name in loaded.files}
        if not archive:
            arrays = {signature.only(file): np.load(file, mmap_mode="r", allow_pickle=False)}
    except (ValueError, OSError, EOFError, SyntaxError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(f"{file} is no NumPy file without pickles: {str(error).splitlines()[0]}") from None
    if missing := sorted(signature.shapes.keys() - arrays.keys()):
        raise InputError(f"{file} has {', '.join(arrays)}; the model takes {', '.join(missing)}")
    given = {}
    for name, shape in signature.shapes.items():  # an array of one example may leave out the first axis
        given[name] = arrays[name][None] if arrays[name].ndim == len(shape) else np.atleast_1d(arrays[name])
    if len({len(values) for values in given.values()}) > 1:
        raise InputError(f"{file} has inputs of different lengths")
    for start in range(0, len(next(iter(given.values()))), batch_size):
        parts = {name: values[start : start + batch_size] for name, values in given.items()}
        yield Piece(file, start, {name: signature.fitted(name, part, str(file)) for name, part in parts.items()})


def _image(file: Path, signature: Signature) -> NDArray[Any]:
    from PIL import Image, UnidentifiedImageError

    name = signature.only(file)
    shape = signature.shapes[name]
    modes = {1: "L", 3: "RGB", 4: "RGBA"}
    if len(shape) != 3 or shape[2] not in modes:
        raise InputError(f"{file} is an image, and the model takes {name} of shape {_shape(shape)}")
    try:
        with Image.open(file) as opened:
            pixels = np.asarray(opened.convert(modes[shape[2]]))
    except (UnidentifiedImageError, OSError, Image.DecompressionBombError) as error:
        raise InputError(f"{file} is no image that can be read: {str(error).splitlines()[0]}") from None
    if any(w not in (None, s) for s, w in zip(pixels.shape[:2], shape[:2], strict=True)):
        height, width = pixels.shape[:2]
        raise InputError(f"{file} is {width}×{height}, the model takes {shape[1]}×{shape[0]}: scale it first")
    return signature.fitted(name, pixels.reshape(1, *pixels.shape[:2], shape[2]), str(file))


def _csv_rows(file: Path, signature: Signature) -> Iterator[Batch]:
    with file.open(newline="", encoding="utf-8-sig") as opened:
        table = csv.DictReader(opened)
        needed = [column for columns in signature.columns.values() for column in columns]
        if missing := [column for column in needed if column not in (table.fieldnames or ())]:
            raise InputError(f"{file} has no column {', '.join(missing)}: it has {', '.join(table.fieldnames or ())}")
        for number, row in enumerate(table, 2):
            where = f"{file}, line {number}"
            found = {}
            for name, columns in signature.columns.items():
                numbers = [_number(row[column], signature.dtypes[name], column, where) for column in columns]
                shape = [size or len(numbers) for size in signature.shapes[name]]
                found[name] = signature.fitted(name, np.array(numbers).reshape(1, *shape), where)[0]
            yield found


def _number(text: str | None, dtype: str, column: str, where: str) -> float | int | str:
    if dtype == "string":
        return text or ""
    try:
        return int(text or "") if "int" in dtype else float(text or "")
    except ValueError:
        raise InputError(f"{where}: {column} is {text!r}, which is no {dtype}") from None


def _json_rows(file: Path, signature: Signature) -> Iterator[Batch]:
    with file.open(encoding="utf-8") as opened:
        for number, line in enumerate(opened, 1):
            if not line.strip():
                continue
            where = f"{file}, line {number}"
            try:
                row = json.loads(line)
            except ValueError as error:
                raise InputError(f"{where} is not JSON: {error}") from None
            if not isinstance(row, dict):
                row = {signature.only(file): row}
            if missing := [name for name in signature.shapes if name not in row]:
                raise InputError(f"{where} has no {', '.join(missing)}")
            try:
                yield {name: signature.fitted(name, np.asarray([row[name]]), where)[0] for name in signature.shapes}
            except ValueError:
                raise InputError(f"{where}: a list has parts of different lengths") from None


def _shape(shape: Sequence[int | None]) -> str:
    return "(" + ", ".join("any" if size is None else str(size) for size in shape) + ")"
