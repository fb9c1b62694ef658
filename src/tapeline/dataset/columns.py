"""Read what ingest wrote: `dataset.json` and one `.npy` file per split and feature.

    dataset = Dataset.open(Path("data/digits"))
    dataset.column("train", "image")     # uint8, shape (examples, 8, 8, 1)

Columns are memory-mapped: the cost of opening one does not depend on its size.
"""

import mmap
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapeline.parsing import arrays, json_text
from tapeline.runtime import files
from tapeline.runtime.errors import InputError

INDEX = "dataset.json"
LONGEST_NAME, LONGEST_PATH = 255, 1000
"""The longest file name, and the longest path including the folder, that file systems allow."""


@dataclass(frozen=True)
class Feature:
    """One column's type: the shape of one example, the dtype, and class names if it is a label."""

    shape: tuple[int, ...]
    dtype: str
    classes: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Dataset:
    """A dataset on disk whose index has been read and whose file sizes match the index."""

    folder: Path
    index: dict[str, Any]

    @classmethod
    def open(cls, folder: Path) -> "Dataset":
        """Read the index and check that every column exists with the recorded size.

        Raises `InputError` for a missing, unreadable or truncated file. Does not read the columns: see `verify`.
        """
        path = folder / INDEX
        remedy = f"run `tapeline ingest {folder.name}`"
        try:
            index = checked_index(files.read_bytes(path), sizes=True)
        except FileNotFoundError:
            raise InputError(f"{path} is missing: {remedy}") from None
        except ValueError as error:
            raise InputError(f"{path} is {error}: {remedy}") from None
        dataset = cls(folder, index)
        sizes = {folder / column["file"]: column["bytes"] for column in _columns(index)}
        for file, size in sizes.items():
            if not file.is_file():
                raise InputError(f"{file} is missing: {remedy}")
            if file.stat().st_size != size:
                raise InputError(f"{file} has {file.stat().st_size} bytes, but {INDEX} says {size}: {remedy}")
        return dataset

    @property
    def name(self) -> str:
        """The dataset's name in `params.yaml`."""
        return str(self.index["name"])

    @property
    def splits(self) -> tuple[str, ...]:
        """The names of the splits."""
        return tuple(self.index["splits"])

    @cached_property
    def features(self) -> dict[str, Feature]:
        """The column types by name."""
        return {
            name: Feature(tuple(f["shape"]), f["dtype"], tuple(f["classes"]) if f.get("classes") else None)
            for name, f in self.index["features"].items()
        }

    def examples(self, split: str) -> int:
        """Return how many examples a split has. Raises `InputError` for an unknown split."""
        return int(self._split(split)["examples"])

    def nbytes(self, split: str) -> int:
        """Return the size of a split's columns in bytes."""
        return sum(int(self._record(split, name)["bytes"]) for name in self.features)

    def path(self, split: str, feature: str) -> Path:
        """Return a column's file."""
        file: str = self._record(split, feature)["file"]
        return self.folder / file

    def column(self, split: str, feature: str) -> NDArray[Any]:
        """Return a column, memory-mapped and read-only: shape (examples, *feature shape).

        Raises `InputError` for an unknown split or feature, and for a file with another content.
        """
        path = self.path(split, feature)
        kind = self.features[feature]
        shape = (self.examples(split), *kind.shape)
        remedy = f"run `tapeline ingest {self.name}`"
        try:
            array = arrays.mapped(path)
        except arrays.NotArrays as error:
            raise InputError(f"{path} is not an .npy array ({error}): {remedy}") from None
        if array.shape != shape or array.dtype != np.dtype(kind.dtype):
            found = f"{array.dtype}{array.shape}"
            raise InputError(f"{path} holds {found}, but {INDEX} says {kind.dtype}{shape}: {remedy}")
        return array

    def columns(self, split: str) -> dict[str, NDArray[Any]]:
        """Return all columns of a split, as `column` does."""
        return {name: self.column(split, name) for name in self.features}

    def verify(self) -> None:
        """Hash every column. Raises `InputError` naming the first one whose hash differs from the recorded one."""
        for split in self.splits:
            for name in self.features:
                record = self._record(split, name)
                if files.sha256(self.folder / record["file"]) != record["sha256"]:
                    raise InputError(
                        f"{self.folder / record['file']} was altered: its SHA-256 does not match {INDEX}; run "
                        f"`tapeline ingest {self.name}`"
                    )

    def fingerprint(self) -> str:
        """Return the SHA-256 of the index, which holds the checksum of every column."""
        return files.sha256(self.folder / INDEX)

    def _split(self, split: str) -> dict[str, Any]:
        if split not in self.splits:
            raise InputError(f"dataset {self.name!r} has no split {split!r}: it has {', '.join(self.splits)}")
        record: dict[str, Any] = self.index["splits"][split]
        return record

    def _record(self, split: str, feature: str) -> dict[str, Any]:
        columns: dict[str, dict[str, Any]] = self._split(split)["columns"]
        if feature not in columns:
            raise InputError(f"dataset {self.name!r} has no feature {feature!r}: it has {', '.join(columns)}")
        return columns[feature]


def checked_index(content: bytes, *, sizes: bool) -> dict[str, Any]:
    """Return the content of a `dataset.json`. Raises `ValueError`, worded to follow "is", if it is not an index.

    sizes: whether it must also have the columns' sizes and checksums.
    """
    try:
        index: dict[str, Any] = json_text.parsed(content)
    except json_text.NotJson:
        raise ValueError("not JSON, so it was truncated or altered") from None
    try:
        if not isinstance(index["name"], str) or not isinstance(index["source"], dict):
            raise TypeError("name")
        _check_made_of(index["source"].get("columns"), index["features"])
        for feature in index["features"].values():
            _check_feature(feature)
        for split in index["splits"].values():
            if not _is_count(split["examples"]) or split["columns"].keys() != index["features"].keys():
                raise TypeError("splits")
        for column in _columns(index):
            _check_column(column, sizes=sizes)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise ValueError("not an index of columns, so it was altered") from None
    return index


def _columns(index: dict[str, Any]) -> list[dict[str, Any]]:
    return [column for split in index["splits"].values() for column in split["columns"].values()]


def _check_made_of(columns: Any, features: dict[str, Any]) -> None:
    """Raise an error for an entry that does not name the table columns of each feature. It may be missing."""
    if columns is None:
        return
    words = [word for of in columns.values() for word in (of if isinstance(of, list) else [of, None])]
    if columns.keys() != features.keys() or not all(isinstance(word, str) for word in words):
        raise TypeError("columns")


def _check_feature(feature: dict[str, Any]) -> None:
    """Raise an error for an entry that does not describe a `Feature`."""
    if not isinstance(feature["shape"], list) or not all(map(_is_count, feature["shape"])):
        raise TypeError("shape")
    dtype = feature["dtype"]
    if not isinstance(dtype, str) or not dtype.isalnum() or np.dtype(dtype).kind not in arrays.KINDS:
        raise TypeError("dtype")  # NumPy parses other characters as Python, with its own errors
    classes = feature.get("classes")
    if classes is not None and not (isinstance(classes, list) and all(isinstance(one, str) for one in classes)):
        raise TypeError("classes")


def _check_column(column: dict[str, Any], *, sizes: bool) -> None:
    """Raise an error for an entry that names no file inside the folder, or lacks its size or SHA-256."""
    file = column["file"]
    if not isinstance(file, str) or not file or "\0" in file or file.startswith("/") or ".." in Path(file).parts:
        raise TypeError("file")
    if len(file) > LONGEST_PATH or any(len(part.encode()) > LONGEST_NAME for part in Path(file).parts):
        raise TypeError("file")
    if sizes and (not _is_count(column["bytes"]) or not isinstance(column["sha256"], str)):
        raise TypeError("bytes")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def release(column: NDArray[Any]) -> None:
    """Release the pages of a memory-mapped column: they stay cached, but no longer count as this process's memory."""
    owner: Any = column
    while isinstance(owner, np.ndarray):  # a view's base is the array, and the array's the map
        owner = owner.base
    if isinstance(owner, mmap.mmap):
        owner.madvise(mmap.MADV_DONTNEED)
