"""Decide whether a table's column is learned as a class or as a number, by the checks of ingest."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tapeline.ingest.bad_cells import Collected
from tapeline.ingest.cells import Cells, is_number
from tapeline.ingest.labels import WHOLE, find_classes
from tapeline.runtime.errors import InputError

MOST_CLASSES = 50
"""Integers with more distinct values than this are a quantity."""


def target_kind(cells: Cells, *, named_so: bool) -> tuple[bool, tuple[str, ...]]:
    """Return whether the column holds classes, and a line if it holds few whole numbers that cannot be class ids.

    named_so: whether the column's name says that it holds classes. Text is a number if most of it can be read so.
    Raises `InputError` that names the first cell which is missing or not like most of the column, for class ids that
    are not 0, 1, 2, ... in a column that is named so, and for a type that ingest does not take.
    """
    values = cells.values.dictionary_decode() if pa.types.is_dictionary(cells.values.type) else cells.values
    if pa.types.is_boolean(values.type):
        raise InputError(f"{cells.of} is {values.type}: to predict it, write names such as no and yes, or 0 and 1")
    text = pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
    words = _words(values) if text or pa.types.is_integer(values.type) else []
    if text and 2 * sum(map(is_number, words)) <= len(words):
        _check(cells.words)
        return True, ()
    _check(cells.numbers)
    if not words or not all(map(WHOLE.fullmatch, words)):
        return False, ()
    ids = sorted({int(word) for word in words})
    if len(ids) > min(MOST_CLASSES, max(2, len(words) // 5)):
        return False, ()
    if named_so:
        find_classes({*words}, of=cells.of)
    if ids == [*range(len(ids))]:
        return True, ()
    few = f"{', '.join(map(str, ids[:3]))}{', ...' if len(ids) > 3 else ''}"
    return False, (f"its whole numbers {few} are not class ids: to predict a class, write names, or 0, 1, 2, ...",)


def _words(values: Any) -> list[str]:
    """Return the cells that are not empty, as text."""
    words: list[str] = pc.utf8_trim_whitespace(pc.cast(values, pa.string())).drop_null().to_pylist()
    return words


def _check(read: Callable[[], object]) -> None:
    """Raise `InputError` for the bad cells of a column."""
    bad = Collected()
    with bad.column():
        read()
    bad.refuse()
