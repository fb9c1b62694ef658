"""Read untrusted NumPy files: any fault is one `ValueError` with a one-line message.

Pickles are refused, and memory is allocated only after the header is checked: `.npy` files are mapped or read in parts,
and an archive's unpacked size is summed first, because a few megabytes can claim to be gigabytes.
"""

import math
import os
import warnings
import zipfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from tapeline.runtime import files
from tapeline.runtime.errors import InputError, plain

MOST_UNPACKED = 2**30
"""Bytes that an archive may unpack to, because it is held in memory as a whole; an `.npy` file is not."""
KINDS = "biufcSU"
"""Allowed dtype kinds: booleans, numbers, bytes and text of a fixed length."""
MOST_AXES = 32
"""What every NumPy version supports."""
MOST_EMPTY = 10**6
"""Largest dimension of an array without elements."""
HEADER = 10_000
"""Bytes of a header; NumPy refuses longer ones as an attack on Python's parser."""


class NotArrays(ValueError):
    """The one-line reason why a file holds no usable array."""


def mapped(path: Path) -> NDArray[Any]:
    """Return the array of an `.npy` file, memory-mapped and read-only.

    Raises `NotArrays`, `InputError` for anything but a regular file, and `OSError`.
    To read what is cut off from the file meanwhile ends the process (SIGBUS): others' files are for `stored`.
    """
    with files.opened(path) as file:
        shape, _, dtype = _checked(file)
    if not math.prod(shape):
        return np.empty(shape, dtype)
    with _refused():
        array: NDArray[Any] = np.lib.format.open_memmap(path, mode="r")
    return array


@dataclass(frozen=True)
class Stored:
    """The array of an open `.npy` file, with at least one axis. What is read of it is in memory, and no file's."""

    shape: tuple[int, ...]
    _file: IO[bytes]
    _start: int
    """Where the values begin."""
    _dtype: np.dtype[Any]
    _fortran: bool

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice) -> NDArray[Any]:
        """Return some rows in the order of their bytes in the file. Raises `NotArrays` if it has become shorter."""
        first, end, _ = rows.indices(len(self))
        shape, size = (end - first, *self.shape[1:]), self._dtype.itemsize
        if not math.prod(shape):
            return np.empty(shape, self._dtype)
        if not self._fortran:
            array = np.empty(shape, self._dtype)
            self._read(array.reshape(-1), first * (math.prod(shape[1:])) * size)
            return array
        columns = np.empty((math.prod(shape[1:]), end - first), self._dtype)
        for number, column in enumerate(columns):
            self._read(column, (number * len(self) + first) * size)
        return columns.reshape(shape[::-1]).T

    def _read(self, into: NDArray[Any], at: int) -> None:
        left, at = into.view(np.uint8).data, self._start + at
        while left:
            if not (count := os.preadv(self._file.fileno(), [left], at)):
                raise NotArrays("it became shorter while it was read")
            left, at = left[count:], at + count


@contextmanager
def stored(path: Path, *, axes: int) -> Iterator[Stored]:
    """Yield the array of an `.npy` file, which is open meanwhile. One with fewer axes by one is a single row.

    Raises as `mapped` does.
    """
    with files.opened(path) as file:
        shape, fortran, dtype = _checked(file)
        if len(shape) in (0, axes - 1):
            shape = (1, *shape)
        yield Stored(shape, file, file.tell(), dtype, fortran)


def members(path: Path) -> list[str]:
    """Return the names of an archive's arrays. Raises as `unpacked` does."""
    with files.opened(path) as file, _refused(), zipfile.ZipFile(file) as archive:
        return [info.filename.removesuffix(".npy") for info in archive.infolist()]


def unpacked(path: Path, names: Collection[str] | None = None) -> dict[str, NDArray[Any]]:
    """Return the arrays of an `.npz` archive by name: all of them, or those in `names` that it has.

    Raises `NotArrays`, also for requested members that are not arrays or would unpack to more than `MOST_UNPACKED`;
    `InputError` for anything but a regular file; `OSError`.
    """
    with files.opened(path) as file, _refused(), zipfile.ZipFile(file) as archive:
        listed: dict[str, zipfile.ZipInfo] = {}
        for info in archive.infolist():
            name = info.filename.removesuffix(".npy")
            if listed.setdefault(name, info) is not info and (names is None or name in names):
                raise NotArrays(f"it has {name!r} twice")
        wanted = {name: info for name, info in listed.items() if names is None or name in names}
        total = sum(info.file_size for info in wanted.values())
        if total > MOST_UNPACKED:
            raise NotArrays(
                f"it unpacks to {total / 2**30:.1f} GB, but at most {MOST_UNPACKED >> 30} GB is held in memory: save "
                "it in parts, or as .npy"
            )
        return {name: _member(archive, info) for name, info in wanted.items()}


def storable(values: NDArray[Any]) -> NDArray[Any]:
    """Return an array that NumPy files can hold.

    TensorFlow's text, an object array, becomes fixed-length bytes; bfloat16 and its like, which NumPy does not know by
    itself, float32, which has every value.
    """
    if values.dtype != object:
        return values if values.dtype.kind in KINDS else values.astype(np.float32)
    return np.array([one.encode() if isinstance(one, str) else one for one in values.flat], "S").reshape(values.shape)


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> NDArray[Any]:
    """Return one array, allocating no more memory than the archive lists for its member."""
    if info.flag_bits & 1 or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        how = "encrypted" if info.flag_bits & 1 else f"compressed by the method {info.compress_type}"
        raise NotArrays(f"{info.filename} is {how}, which NumPy does not write")
    with archive.open(info) as member:
        shape, _, dtype = _header(member)
        if math.prod(shape) * dtype.itemsize > info.file_size:
            raise NotArrays(f"{info.filename} has {info.file_size} bytes, but says {dtype}{_shown(shape)}")
    with archive.open(info) as member:
        array: NDArray[Any] = np.lib.format.read_array(member, allow_pickle=False)
        member.read()  # to the end, where the checksum is verified
    return array


def _checked(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return what `_header` does, for a file with as many bytes as that says."""
    shape, fortran, dtype = _header(file)
    size = os.fstat(file.fileno()).st_size - file.tell()
    if size < math.prod(shape) * dtype.itemsize:
        raise NotArrays(f"{size} bytes follow the header, which says {dtype}{_shown(shape)}: the file was truncated")
    return shape, fortran, dtype


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, order and dtype of an `.npy` header. Raises `NotArrays`, also for structured and object dtypes."""
    with _refused():
        version = np.lib.format.read_magic(file)
        if version not in ((1, 0), (2, 0)):
            raise NotArrays(f"a header of version {version}, which is for structures")
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(file, max_header_size=HEADER)
        if dtype.hasobject:
            raise NotArrays("Python objects, which would be pickles")
        if dtype.kind not in KINDS or dtype.subdtype is not None:
            raise NotArrays(f"values of type {dtype}: give numbers or text")
        if not dtype.itemsize or (not math.prod(shape) and max(shape) > MOST_EMPTY):
            raise NotArrays(f"{dtype}{_shown(shape)}, which are values without bytes")
        if (
            len(shape) > MOST_AXES
            or any(size < 0 or isinstance(size, bool) for size in shape)
            or math.prod(shape) * dtype.itemsize >= 2**63
        ):
            raise NotArrays(f"a shape of {_shown(shape)}")
    return shape, fortran, dtype


@contextmanager
def _refused() -> Iterator[None]:
    """Turn whatever NumPy and `zipfile` raise into `NotArrays`: a header is a Python literal and can raise anything."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the file may be from Python 2
            yield
    except (NotArrays, InputError):
        raise
    except OSError as error:
        if error.errno in files.DISK_ERRORS:
            raise
        raise NotArrays(_reason(error)) from None
    except Exception as error:
        raise NotArrays(_reason(error)) from None


def _reason(error: Exception) -> str:
    said = error.args[0] if error.args and isinstance(error.args[0], str) else str(error)
    return plain(next((line for line in said.splitlines() if line.strip()), type(error).__name__).strip())[:300]


def _shown(shape: tuple[int, ...]) -> str:
    return str(shape)[:100]
