"""Reading what ingest wrote: `dataset.json` and one `.npy` per split and feature.

    dataset = Dataset.open(Path("data/digits"))
    dataset.column("train", "image")     # uint8, shape (examples, 8, 8, 1)

Columns are memory-mapped: opening costs the same whatever their size.
"""

import json
import mmap
from dataclasses import dataclass
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapeline import files
from tapeline.errors import InputError

INDEX = "dataset.json"


@dataclass(frozen=True)
class Feature:
    """One column's type: the shape of one example, the dtype, and class names if it is a label."""

    shape: tuple[int, ...]
    dtype: str
    classes: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Dataset:
    """A dataset on disk whose index was read and whose files have the sizes that the index says."""

    folder: Path
    index: dict[str, Any]

    @classmethod
    def open(cls, folder: Path) -> "Dataset":
        """Read the index and check that every column is there with the recorded size.

        Raises `InputError` for a missing, unreadable or truncated file. Does not read the columns: see `verify`.
        """
        path = folder / INDEX
        remedy = f"run `tapeline ingest {folder.name}`"
        try:
            index = json.loads(path.read_bytes())
        except FileNotFoundError:
            raise InputError(f"{path} is missing: {remedy}") from None
        except ValueError:
            raise InputError(f"{path} is not JSON, so it was cut or altered: {remedy}") from None
        dataset = cls(folder, index)
        try:
            sizes = dataset._sizes()
        except (AttributeError, KeyError, TypeError, ValueError):
            raise InputError(f"{path} is no index of columns, so it was altered: {remedy}") from None
        for file, size in sizes.items():
            if not file.is_file():
                raise InputError(f"{file} is missing: {remedy}")
            if file.stat().st_size != size:
                raise InputError(f"{file} has {file.stat().st_size} bytes and {INDEX} says {size}: {remedy}")
        return dataset

    @property
    def name(self) -> str:
        """The dataset's name in `params.yaml`."""
        return str(self.index["name"])

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits' names."""
        return tuple(self.index["splits"])

    @property
    def features(self) -> dict[str, Feature]:
        """The columns' types by name."""
        return {
            name: Feature(tuple(f["shape"]), f["dtype"], tuple(f["classes"]) if f.get("classes") else None)
            for name, f in self.index["features"].items()
        }

    def examples(self, split: str) -> int:
        """Return how many examples a split has. Raises `InputError` for a split that is not there."""
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

        Raises `InputError` for a split or feature that is not there and for a file that holds something else.
        """
        path = self.path(split, feature)
        kind = self.features[feature]
        shape = (self.examples(split), *kind.shape)
        remedy = f"run `tapeline ingest {self.name}`"
        try:
            array: NDArray[Any] = np.lib.format.open_memmap(path, mode="r")
        except (ValueError, SyntaxError, TokenError) as error:  # the last two for a header that is no Python literal
            raise InputError(f"{path} is not an .npy array ({error}): {remedy}") from None
        if array.shape != shape or array.dtype != np.dtype(kind.dtype):
            found = f"{array.dtype}{array.shape}"
            raise InputError(f"{path} holds {found} and {INDEX} says {kind.dtype}{shape}: {remedy}")
        return array

    def columns(self, split: str) -> dict[str, NDArray[Any]]:
        """Return all columns of a split, as `column` does."""
        return {name: self.column(split, name) for name in self.features}

    def verify(self) -> None:
        """Hash every column. Raises `InputError` naming the first whose bytes are not the recorded ones."""
        for split in self.splits:
            for name in self.features:
                record = self._record(split, name)
                if files.sha256(self.folder / record["file"]) != record["sha256"]:
                    raise InputError(
                        f"{self.folder / record['file']} was altered: its SHA-256 is not the one in {INDEX}; "
                        f"run `tapeline ingest {self.name}`"
                    )

    def fingerprint(self) -> str:
        """Return the SHA-256 of the index, which holds the checksum of every column."""
        return files.sha256(self.folder / INDEX)

    def _sizes(self) -> dict[Path, int]:
        """Return every column's file and recorded size. Raises what Python does for an entry that is not there."""
        str(self.index["name"])
        for feature in self.features.values():
            np.dtype(feature.dtype)
        sizes = {}
        for split in self.splits:
            self.examples(split)
            for record in (self._record(split, name) for name in self.features):
                sizes[self.folder / record["file"]] = int(record["bytes"])
                str(record["sha256"])
        return sizes

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


def release(column: NDArray[Any]) -> None:
    """Give the pages of a memory-mapped column back: they stay cached, and count no longer as this process' memory."""
    if isinstance(column, np.memmap):
        column._mmap.madvise(mmap.MADV_DONTNEED)  # type: ignore[attr-defined]  # NumPy's stubs leave it out
