"""The examples on which versions are compared: a recorded dataset's split, read from DVC's cache in place."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from tapeline.dataset.columns import INDEX, checked_index
from tapeline.parsing import arrays
from tapeline.registry.store import Store
from tapeline.runtime.errors import InputError


@dataclass(frozen=True)
class Examples:
    """One split of one recorded dataset; nothing is copied."""

    md5: str
    split: str
    features: dict[str, dict[str, Any]]
    files: dict[str, Path]
    """Feature → the checked file with its column, named by its MD5 without an extension."""

    @classmethod
    def open(cls, store: Store, md5: str, split: str) -> "Examples":
        """Open a split. Raises `InputError` for a split that does not exist and for missing or altered bytes."""
        listing = store.listing(md5)
        try:
            index = _index(store, listing, md5)
            columns = index["splits"][split]["columns"]
            files = {name: store.bring(listing[column["file"]]) for name, column in columns.items()}
        except KeyError as error:
            raise InputError(f"the recorded dataset {md5} has no {error.args[0]}, so it cannot be tested on") from None
        return cls(md5, split, index["features"], files)

    def column(self, feature: str) -> NDArray[Any]:
        """Return a column, memory-mapped: shape (examples, *feature shape)."""
        if feature not in self.files:
            raise InputError(f"the test data has no feature {feature!r}: it has {', '.join(self.files)}")
        try:
            return arrays.mapped(self.files[feature])
        except arrays.NotArrays as error:
            raise InputError(
                f"the column {feature} of the recorded dataset {self.md5} is not an array: {error}"
            ) from None

    def classes(self, feature: str) -> tuple[str, ...]:
        """Return a label's class names; empty for any other feature."""
        return tuple(self.features[feature].get("classes") or ())

    def inputs(self, signature: Mapping[str, Any], own: Collection[str] = ()) -> dict[str, Path] | None:
        """Return the file of each input of a signature; None if one of the inputs is not a feature.

        own: the inputs that are not a feature although they share a feature's name.
        """
        names = signature["inputs"]
        features = all(name in self.files and name not in own for name in names)
        return {name: self.files[name] for name in names} if features else None

    def target(self, signature: Mapping[str, Any], named: str | None) -> str | None:
        """Return the feature that a signature predicts: the one named, the only label, or an output's namesake."""
        if named is not None:
            self.column(named)
            return named
        others = [name for name in self.features if name not in signature["inputs"]]
        labels = [name for name in others if self.classes(name)] if "class" in signature["outputs"] else []
        same = [name for name in others if name in signature["outputs"]]
        found = labels or same
        return found[0] if len(found) == 1 else None


def features(store: Store, md5: str) -> dict[str, dict[str, Any]]:
    """Return the features of a recorded dataset; its columns may be missing. Raises `InputError` as `open` does."""
    found: dict[str, dict[str, Any]] = _index(store, store.listing(md5), md5)["features"]
    return found


def _index(store: Store, listing: Mapping[str, str], md5: str) -> dict[str, Any]:
    if INDEX not in listing:
        raise InputError(f"the recorded dataset {md5} has no {INDEX}, so Tapeline did not ingest it")
    try:
        return checked_index(store.bring(listing[INDEX]).read_bytes(), sizes=False)
    except ValueError as error:
        raise InputError(f"the {INDEX} of the recorded dataset {md5} is {error}: `tapeline ingest` makes it") from None
