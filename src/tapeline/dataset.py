"""Reading what ingest wrote: `dataset.json` and one `.npy` per split and feature, memory-mapped.

    dataset = Dataset.open(Path("data/digits"))
    dataset.column("train", "image")     # a memory-mapped array, uint8, shape (examples, 8, 8, 1)
"""

import json
from dataclasses import dataclass
from pathlib import Path
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
        for split in dataset.splits:
            for name in dataset.features:
                record = dataset._record(split, name)
                file = folder / record["file"]
                if not file.is_file():
                    raise InputError(f"{file} is missing: {remedy}")
                if file.stat().st_size != record["bytes"]:
                    raise InputError(f"{file} has {file.stat().st_size} bytes and {INDEX} says {record['bytes']}: {remedy}")
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
        """Return how many examples a split has."""
        return int(self.index["splits"][split]["examples"])

    def nbytes(self, split: str) -> int:
        """Return the size of a split's columns in bytes."""
        return sum(int(self._record(split, name)["bytes"]) for name in self.features)

    def column(self, split: str, feature: str) -> NDArray[Any]:
        """Return a column, memory-mapped and read-only: shape (examples, *feature shape)."""
        path = self.folder / self._record(split, feature)["file"]
        try:
            array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
        except ValueError as error:
            raise InputError(f"{path} is not an .npy array ({error}): run `tapeline ingest {self.name}`") from None
        return array

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

    def _record(self, split: str, feature: str) -> dict[str, Any]:
        record: dict[str, Any] = self.index["splits"][split]["columns"][feature]
        return record
