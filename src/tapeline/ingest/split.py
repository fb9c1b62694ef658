"""The validation split: which examples of `train` become `val`, as a pure function of each example's key or content.

An example stays on its side whatever else is in the dataset, and a larger fraction only adds examples to `val`. If the
source has no keys, the content decides, because positions change as soon as an example is added. So copies of an
example are always on the same side.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapeline.dataset.columns import Feature
from tapeline.ingest.source import Examples


def held_out(keys: Sequence[str], fraction: float) -> NDArray[np.bool_]:
    """Return for each key whether it goes to `val`: whether its SHA-256, as a number in [0, 1), is below `fraction`.

    >>> held_out(["0", "1", "2", "3"], 0.5).tolist()
    [True, True, False, True]
    """
    bound = fraction * 2.0**64
    return np.fromiter((number < bound for number in numbers(keys).tolist()), dtype=bool, count=len(keys))


def numbers(keys: Sequence[str]) -> NDArray[np.uint64]:
    """Return the first 64 bits of each key's SHA-256."""
    found = (int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") for key in keys)
    return np.fromiter(found, dtype=np.uint64, count=len(keys))


def without_signed_zeros(values: NDArray[Any]) -> NDArray[Any]:
    """Return values in which zero has one form: -0.0 and 0.0 are equal, and so must be what is hashed of them."""
    return values + values.dtype.type(0) if np.issubdtype(values.dtype, np.floating) else values


def contents(columns: Mapping[str, NDArray[Any]], features: Mapping[str, Feature]) -> list[str]:
    """Return a key for each example from its content: a SHA-256 over its values, in the order of feature names.

    columns: feature → values of shape (examples, *feature shape). Classes are hashed by name, because ids change as
    soon as a class is added. Values are little-endian, so that keys are the same on every machine, and -0.0 is 0.0.
    """
    digests = [hashlib.sha256() for _ in range(len(next(iter(columns.values()))))]
    for name, values in sorted(columns.items()):
        kind = f"{name} {values.dtype.name} {values.shape[1:]}\n".encode()
        classes = features[name].classes
        if classes:
            rows = (repr([classes[number] for number in row.flat]).encode() for row in values.reshape(len(values), -1))
        else:
            little = without_signed_zeros(values).astype(values.dtype.newbyteorder("<"), copy=False)
            rows = (row.tobytes() for row in little)
        for digest, row in zip(digests, rows, strict=True):
            digest.update(kind)
            digest.update(row)
    return [digest.hexdigest() for digest in digests]


def cut(examples: Examples, fraction: float, features: Mapping[str, Feature]) -> Iterator[Examples]:
    """Yield the examples of `train` that stay and those that move to `val`; yield other splits unchanged."""
    if examples.split != "train" or fraction == 0.0:
        yield examples
        return
    moved = held_out(examples.keys if examples.own_keys else contents(examples.columns, features), fraction)
    yield examples.select(~moved, "train")
    yield examples.select(moved, "val")
