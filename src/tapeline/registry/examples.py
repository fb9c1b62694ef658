"""The examples on which versions are compared: a recorded dataset's split, read where DVC's cache keeps it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapeline.dataset import INDEX
from tapeline.errors import InputError
from tapeline.registry.store import Store


@dataclass(frozen=True)
class Examples:
    """One split of one recorded dataset; nothing is copied."""

    md5: str
    split: str
    features: dict[str, dict[str, Any]]
    files: dict[str, Path]
    """Feature → the file with its column, checked; named by its content, without an ending."""

    @classmethod
    def open(cls, store: Store, md5: str, split: str) -> "Examples":
        """Raises `InputError` for a split that is not there and for bytes that are nowhere or altered."""
        listing = store.listing(md5)
        try:
            index = json.loads(store.bring(listing[INDEX]).read_bytes())
            columns = index["splits"][split]["columns"]
            files = {name: store.bring(listing[column["file"]]) for name, column in columns.items()}
        except KeyError as error:
            raise InputError(f"the recorded dataset {md5} has no {error.args[0]}, so it cannot be tested on") from None
        return cls(md5, split, index["features"], files)

    def column(self, feature: str) -> NDArray[Any]:
        """Return a column, memory-mapped: shape (examples, *feature shape)."""
        if feature not in self.files:
            raise InputError(f"the test data has no feature {feature!r}: it has {', '.join(self.files)}")
        array: NDArray[Any] = np.lib.format.open_memmap(self.files[feature], mode="r")
        return array

    def classes(self, feature: str) -> tuple[str, ...]:
        """Return a label's class names; none for another feature."""
        return tuple(self.features[feature].get("classes") or ())

    def inputs(self, signature: Mapping[str, Any]) -> dict[str, Path] | None:
        """Return the file of each input of a signature; None when one of them is no feature."""
        names = signature["inputs"]
        return {name: self.files[name] for name in names} if all(name in self.files for name in names) else None

    def target(self, signature: Mapping[str, Any], named: str | None) -> str | None:
        """Return the feature that a signature foretells: the one named, the only class, or an output's namesake."""
        if named is not None:
            self.column(named)
            return named
        others = [name for name in self.features if name not in signature["inputs"]]
        labels = [name for name in others if self.classes(name)] if "class" in signature["outputs"] else []
        same = [name for name in others if name in signature["outputs"]]
        found = labels or same
        return found[0] if len(found) == 1 else None
