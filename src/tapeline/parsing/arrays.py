"""NumPy files that somebody else may have written: whatever is wrong with one is one `ValueError` in one line.

No pickles, and no memory before the header is known to be true: `.npy` files are mapped, and what an archive would
unpack to is counted first, because a few megabytes can say that they are gigabytes.
"""

import math
import warnings
import zipfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from tapeline.runtime import files
from tapeline.runtime.errors import InputError, plain

MOST_UNPACKED = 2**30
"""Bytes that an archive may unpack to: it is held in memory as a whole. An `.npy` file is not."""
KINDS = "biufcSU"
"""Of a dtype: truth values, numbers, bytes and text of a fixed length."""
MOST_AXES = 32
"""What every NumPy takes."""
MOST_EMPTY = 10**6
"""Examples of which none has a value."""
HEADER = 10_000
"""Bytes of a header; beyond, NumPy takes it for an attack on Python's parser."""


class NotArrays(ValueError):
    """Why a file holds no array that can be used, in one line."""


def mapped(path: Path) -> NDArray[Any]:
    """Return the array of an `.npy` file, memory-mapped and read-only.

    Raises `NotArrays`, `InputError` for what is no regular file, and `OSError`.
    """
    with files.opened(path) as file:
        shape, _, dtype = _header(file)
        size = path.stat().st_size - file.tell()
    if not math.prod(shape):
        return np.empty(shape, dtype)
    if size < math.prod(shape) * dtype.itemsize:
        raise NotArrays(f"{size} bytes follow the header, which says {dtype}{_shown(shape)}: the file was cut")
    with _refused():
        array: NDArray[Any] = np.lib.format.open_memmap(path, mode="r")
    return array


def members(path: Path) -> list[str]:
    """Return the names of an archive's arrays. Raises as `unpacked` does."""
    with files.opened(path) as file, _refused(), zipfile.ZipFile(file) as archive:
        return [info.filename.removesuffix(".npy") for info in archive.infolist()]


def unpacked(path: Path, names: Collection[str] | None = None) -> dict[str, NDArray[Any]]:
    """Return the arrays of an `.npz` archive by name: those of `names` that it has, or all.

    Raises `NotArrays`, also for members of these names that are no arrays or would unpack to more than
    `MOST_UNPACKED`; `InputError` for what is no regular file; `OSError`.
    """
    with files.opened(path) as file, _refused(), zipfile.ZipFile(file) as archive:
        listed = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        wanted = {name: info for name, info in listed.items() if names is None or name in names}
        total = sum(info.file_size for info in wanted.values())
        if total > MOST_UNPACKED:
            raise NotArrays(
                f"it unpacks to {total / 2**30:.1f} GB, and at most {MOST_UNPACKED >> 30} GB is held in memory: "
                "save it in parts, or as .npy"
            )
        return {name: _member(archive, info) for name, info in wanted.items()}


def storable(values: NDArray[Any]) -> NDArray[Any]:
    """Return an array that NumPy files hold: TensorFlow's text, which is Python objects, as bytes of a fixed length."""
    if values.dtype != object:
        return values
    return np.array([one.encode() if isinstance(one, str) else one for one in values.flat], "S").reshape(values.shape)


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> NDArray[Any]:
    """Return one array, for which no more memory is taken than its member says that it has."""
    if info.flag_bits & 1 or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        how = "encrypted" if info.flag_bits & 1 else f"compressed by the method {info.compress_type}"
        raise NotArrays(f"{info.filename} is {how}, which NumPy does not write")
    with archive.open(info) as member:
        shape, _, dtype = _header(member)
        if math.prod(shape) * dtype.itemsize > info.file_size:
            raise NotArrays(f"{info.filename} has {info.file_size} bytes, and says {dtype}{_shown(shape)}")
    with archive.open(info) as member:
        array: NDArray[Any] = np.lib.format.read_array(member, allow_pickle=False)
        member.read()  # to the end, where the checksum is compared
    return array


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, order and dtype of an `.npy` header. Raises `NotArrays`, for structures and objects too."""
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
    """Make one error of all that NumPy and `zipfile` raise: a header is a Python literal, and can fail as any code."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that Python 2 wrote it
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
