"""Find examples of `val` or `test` that are also in `train`, by a hash of their input features, or whose key is.

Labels do not count: the same image with two labels is a duplicate nevertheless.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tapeline.dataset.columns import Feature
from tapeline.ingest.source import SPLITS, Examples
from tapeline.ingest.split import without_signed_zeros
from tapeline.runtime.errors import first_few

NAMED = 3


class Duplicates:
    """Collects examples and reports held-out ones that are also in `train`. Costs 8 bytes plus the key per example."""

    def __init__(self, features: Mapping[str, Feature], *, key: str | None = None) -> None:
        """Collect nothing yet. key: the column of a table by which rows belong together, which a split may part."""
        self._key = key
        self._features = [name for name in features if not features[name].classes] or list(features)
        self._hashes: dict[str, list[NDArray[np.uint64]]] = defaultdict(list)
        self._keys: dict[str, list[pa.Array]] = defaultdict(list)

    def add(self, examples: Examples) -> None:
        """Add more examples of one split."""
        if not len(examples.keys):
            return
        rows = [np.ascontiguousarray(without_signed_zeros(examples.columns[name])) for name in self._features]
        plain = [values.reshape(len(values), -1).view(np.uint8) for values in rows]
        numbers = np.empty(len(examples.keys), np.uint64)
        for place in range(len(numbers)):
            digest = hashlib.blake2b(digest_size=8)
            for values in plain:
                digest.update(values[place].data)
            numbers[place] = int.from_bytes(digest.digest(), "little")
        self._hashes[examples.split].append(numbers)
        self._keys[examples.split].append(pa.array([*examples.keys], pa.large_string()))

    def notes(self) -> Iterator[str]:
        """Yield a line for each held-out split that shares examples with `train`, and one if it shares keys."""
        if "train" not in self._hashes:
            return
        train = np.unique(np.concatenate(self._hashes["train"]))
        for split in (split for split in SPLITS if split in self._hashes and split != "train"):
            hashes, keys = np.concatenate(self._hashes[split]), pa.chunked_array(self._keys[split])
            if self._key is not None:
                known = pc.is_in(keys, pa.concat_arrays(self._keys["train"]))
                if len(both := pc.unique(keys.filter(known)).sort()):
                    yield f"{len(both):,} values of the key {self._key!r} are in {split} and in train: {_named(both)}"
            same = keys.filter(pa.array(np.isin(hashes, train)))
            if len(same):
                yield f"{len(same):,} of {len(hashes):,} examples of {split} are also in train: {_named(same)}"


def _named(keys: Any) -> str:
    return first_few(keys[: NAMED + 1].to_pylist(), NAMED)
