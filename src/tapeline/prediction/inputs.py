"""Files as batches of a model's inputs: `.npy`, `.npz`, CSV, JSON lines and images.

Nothing is guessed: values that do not fit the signature's shape and dtype are refused, naming their position. Only
images are resized, where ingest has done the same with those that the model was trained on. Pickle is disabled.
"""

import contextlib
import csv
import io
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapeline.parsing import arrays
from tapeline.prediction.json_rows import json_rows
from tapeline.prediction.signature import Inputs, Signature, shape_text, shortened
from tapeline.prediction.text_rows import csv_rows
from tapeline.runtime import files
from tapeline.runtime.errors import InputError

ARRAYS, TEXTS = (".npy", ".npz"), (".csv", ".jsonl")
IMAGES = (".png", ".jpg", ".jpeg", ".jpe", ".jfif", ".bmp", ".webp", ".gif", ".tif", ".tiff")
"""The usual names of images. Any other file is one if its content is, as for ingest."""
KINDS = (*ARRAYS, *TEXTS, *IMAGES)


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
        except FileNotFoundError:
            raise InputError(f"{file}: no such file") from None
        except IsADirectoryError:
            raise InputError(f"{file} is a folder: name its files, such as {file}/*.png") from None
        except OSError as error:
            raise InputError(f"{file} cannot be read: {error.strerror}") from None
        if file.suffix.lower() not in KINDS and not _is_image(file):
            raise InputError(
                f"{file} is not a supported kind of file: use one of {', '.join(KINDS)}, or another image format"
            )


def _is_image(file: Path) -> bool:
    from tapeline.ingest import pixels  # imports Pillow, which no file needs whose name says what it is

    with files.opened(file) as opened:
        return pixels.is_image(opened)


def pieces(given: Sequence[Path], signature: Signature, batch_size: int) -> Iterator[Piece]:
    """Yield the files' examples in order, at most `batch_size` at once and never from two files."""
    for file in given:
        kind = file.suffix.lower()
        if kind in ARRAYS:
            yield from _arrays(file, signature, batch_size)
        elif kind in TEXTS:
            yield from _regrouped(file, _text(file, signature), batch_size)
        else:
            yield Piece(file, 0, {signature.only(file): _image(file, signature)})


def _text(file: Path, signature: Signature) -> Iterator[Inputs]:
    try:
        yield from csv_rows(file, signature) if file.suffix.lower() == ".csv" else json_rows(file, signature)
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not UTF-8: {error.reason}; save it as UTF-8") from None
    except csv.Error as error:
        raise InputError(f"{file} cannot be read as CSV: {error}; fix it, or look for an unclosed quote") from None


def _regrouped(file: Path, chunks: Iterable[Inputs], batch_size: int) -> Iterator[Piece]:
    """Yield rows that come some at once as pieces of `batch_size` rows; the last one may be smaller."""
    waiting: list[Inputs] = []
    first = count = 0
    for chunk in chunks:
        rows = len(next(iter(chunk.values())))
        for at in itertools.accumulate(itertools.repeat(batch_size), initial=-count):
            if at >= rows:
                break
            part = {name: values[max(at, 0) : at + batch_size] for name, values in chunk.items()}
            waiting.append(part)
            count += len(next(iter(part.values())))
            if count == batch_size:
                yield Piece(file, first, _stacked(file, first, waiting))
                first, count, waiting = first + count, 0, []
    if waiting:
        yield Piece(file, first, _stacked(file, first, waiting))


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


def _stacked(file: Path, first: int, parts: Sequence[Inputs]) -> Inputs:
    """Join rows. Raises `InputError` for those that have not the shapes of the first, whose index is `first`."""
    number = first
    for part in parts:
        for name, values in part.items():
            wanted = parts[0][name].shape[1:]
            if values.shape[1:] != wanted:
                raise InputError(
                    f"{file}: {name} of example {number} has shape {shape_text(values.shape[1:])}, and that of example "
                    f"{first}, in the same batch, {shape_text(wanted)}: use --batch-size 1, or inputs of equal length"
                )
        number += len(next(iter(part.values())))
    return parts[0] if len(parts) == 1 else {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _arrays(file: Path, signature: Signature, batch_size: int) -> Iterator[Piece]:
    with contextlib.ExitStack() as opened:
        try:
            given = _given(file, signature, opened)
        except (arrays.NotArrays, OSError) as error:
            raise InputError(f"{file} is not a NumPy file without pickles: {error}") from None
        if len({len(values) for values in given.values()}) > 1:
            for name, values in given.items():  # an array without its last axis would be taken for one example
                signature.fitted(name, values[:1], str(file))
            lengths = shortened([f"{name} {len(values)}" for name, values in given.items()])
            raise InputError(f"{file} has inputs of different lengths: {lengths}")
        for start in range(0, len(next(iter(given.values()))), batch_size):
            try:
                parts = {name: values[start : start + batch_size] for name, values in given.items()}
            except arrays.NotArrays as error:
                raise InputError(f"{file} cannot be read: {error}") from None
            yield Piece(file, start, {name: signature.fitted(name, part, str(file)) for name, part in parts.items()})


def _given(
    file: Path, signature: Signature, opened: contextlib.ExitStack
) -> Mapping[str, NDArray[Any] | arrays.Stored]:
    """Return the arrays of a file by input. An array of one example may omit the first axis."""
    with files.opened(file) as begun:
        archive = begun.read(2) == b"PK"
    if not archive:
        name = signature.only(file)
        return {name: opened.enter_context(arrays.stored(file, axes=len(signature.shapes[name]) + 1))}
    _check_names(file, arrays.members(file), signature)
    found = arrays.unpacked(file, signature.shapes)
    return {
        name: found[name][None] if found[name].ndim == len(shape) else np.atleast_1d(found[name])
        for name, shape in signature.shapes.items()
    }


def _check_names(file: Path, known: Sequence[str], signature: Signature) -> None:
    if missing := sorted(signature.shapes.keys() - known):
        raise InputError(f"{file} has {shortened(known)} and lacks {shortened(missing)}, which the model needs")


def _image(file: Path, signature: Signature) -> NDArray[Any]:
    from tapeline.ingest import jpeg, pixels  # imports Pillow, which no other kind of file needs

    name = signature.only(file)
    shape = signature.shapes[name]
    if len(shape) != 3 or shape[2] not in pixels.MODES:
        raise InputError(f"{file} is an image, but the model takes {name} of shape {shape_text(shape)}")
    if signature.dtypes[name] != "uint8":
        raise InputError(
            f"{file} is an image with pixels from 0 to 255, but the model takes {name} as {signature.dtypes[name]}, on "
            "a scale that an image does not record: use .npy"
        )
    content = files.read_bytes(file)
    with pixels.decoded(io.BytesIO(content), str(file)) as image:
        if name not in signature.resized:
            pixels.refuse_other_pixels(image, shape[2], str(file))
        if name not in signature.resized and pixels.is_turned(image):
            raise InputError(
                f"{file} is rotated by its EXIF data, but nothing says whether the model's training images were "
                "rotated accordingly: use .npy, or save it upright"
            )
        picture = pixels.upright(image, shape[2])
        if name in signature.resized and shape[0] is not None and shape[1] is not None:
            picture = pixels.resized(picture, shape[0], shape[1])
        values = pixels.array(picture, shape[2])
    if name not in signature.resized and (decoded := jpeg.as_tensorflow(content, shape[2])) is not None:
        values = decoded  # TFDS has TensorFlow decode, and such an input is a builder's or of the catalogue
    if why := jpeg.damage(content):
        raise InputError(f"{file} seems damaged, so that some of its pixels would be invented: {why}; get a new copy")
    if any(w not in (None, s) for s, w in zip(values.shape[:2], shape[:2], strict=True)):
        height, width = values.shape[:2]
        raise InputError(f"{file} is {width}×{height}, but the model takes {shape[1]}×{shape[0]}: scale it first")
    return signature.fitted(name, values[np.newaxis], str(file))
