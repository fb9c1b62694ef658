"""Classes of a table's label column: ids are kept, names are sorted and numbered."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tapeline.runtime.errors import InputError

WHOLE = re.compile(r"-?[0-9]+")
LONGEST = 18
"""Digits of an id: more are no index, and Python refuses to convert thousands of them."""


@dataclass(frozen=True)
class Classes:
    """The class names; a name's class id is its index."""

    names: tuple[str, ...]
    ids: bool
    """Whether the column holds ids instead of names."""
    padded: str | None = None
    """An id that the column has in a longer form, such as 01; its name is 1."""

    def encode(self, words: pa.Array) -> NDArray[np.int64]:
        """Return the class ids of a text column of labels, which may be dictionary-encoded.

        Raises `InputError` for a name that is no class: the table has changed since they were found.
        """
        if pa.types.is_dictionary(words.type):
            distinct = pc.unique(words)  # a dictionary may have what no row has
            ids = np.zeros(len(words.dictionary), np.int64)
            ids[distinct.indices.to_numpy()] = self.encode(distinct.dictionary_decode())
            return np.asarray(pa.array(ids).take(words.indices))
        codes = pc.cast(words, pa.int64()) if self.ids else pc.index_in(words, pa.array(self.names, pa.string()))
        if codes.null_count:
            new = words.filter(codes.is_null())[0].as_py()
            raise InputError(
                f"the label {new!r} was not there when the classes were found: ingest again when nothing writes to the "
                "table"
            )
        return np.asarray(codes.to_numpy(zero_copy_only=False), np.int64)


def find_classes(labels: Iterable[str], *, of: str) -> Classes:
    """Return the classes of a column, given its distinct values.

    Raises `InputError` for ids that are not 0, 1, 2, ... without a gap, for two forms of one id, such as 1 and 01, and
    for numbers that are not ids.
    """
    names = sorted(labels)
    if names and all(WHOLE.fullmatch(name) for name in names):
        if longest := next((name for name in names if len(name) > LONGEST), ""):
            raise InputError(
                f"{of} has a class id of {len(longest):,} digits, {longest[:LONGEST]}...: ids must be 0, 1, 2, ... "
                "without gaps: renumber them, or write names"
            )
        ids = sorted({int(name) for name in names})
        if len(ids) < len(names):
            one, other = _same_number(names)
            raise InputError(
                f"{of} has the class ids {one!r} and {other!r}, which are the same number: write it in one form"
            )
        if ids != list(range(len(ids))):
            raise InputError(
                f"{of} has class ids {_some(ids)}: they must be 0, 1, 2, ... without gaps: renumber them, or write "
                "names"
            )
        padded = next((name for name in names if str(int(name)) != name), None)
        return Classes(tuple(map(str, ids)), ids=True, padded=padded)
    if _are_numbers(names):
        value = next(name for name in names if not WHOLE.fullmatch(name))
        raise InputError(
            f"{of} has the value {value}: a label is a class name or id; remove `label` to predict a number"
        )
    return Classes(tuple(names), ids=False)


def _same_number(names: list[str]) -> tuple[str, str]:
    """Return two of several texts of whole numbers that are the same number."""
    seen: dict[int, str] = {}
    return next((seen[number], name) for name in names if seen.setdefault(number := int(name), name) != name)


def _are_numbers(names: list[str]) -> bool:
    """Return whether all names are numbers, as a feature's cells are read, and one is finite: `nan` alone is a name."""
    try:
        return bool(np.isfinite(pc.cast(pa.array(names, pa.string()), pa.float64()).to_numpy()).any())
    except pa.ArrowInvalid:
        return False


def _some(ids: list[int]) -> str:
    return ", ".join(map(str, ids)) if len(ids) <= 6 else f"{', '.join(map(str, ids[:3]))}, ... {ids[-1]}"
