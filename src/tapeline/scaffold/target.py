"""Decide whether a table's column is learned as a class or as a number, by the checks of ingest."""

import re
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tapeline.ingest.bad_cells import Collected
from tapeline.ingest.cells import Cells, is_number
from tapeline.ingest.labels import WHOLE, find_classes
from tapeline.runtime.errors import InputError

T = TypeVar("T")

MOST_CLASSES = 50
"""Integers with more distinct values than this are a quantity."""
OTHER_NUMBER = re.compile(r"(?=.*[,%])[+-]?[0-9.,]*[0-9][0-9.,]*\s?%?")
"""A number that ingest does not read, such as `12,50`, `1,234.5` or `45%`."""
PLAINLY = "with a decimal point, and without thousands separators and percent signs"


def target_kind(cells: Cells, *, named_so: bool) -> tuple[bool, tuple[str, ...]]:
    """Return whether the column holds classes, and a line if it may be meant otherwise.

    named_so: whether the column's name says that it holds classes. Text is a number if most of it can be read so.
    Raises `InputError` that names the first cell which is missing or not like most of the column, for text that differs
    in most rows, for class ids that are not 0, 1, 2, ... in a column that is named so, and for a type that ingest does
    not take.
    """
    values = cells.values.dictionary_decode() if pa.types.is_dictionary(cells.values.type) else cells.values
    if pa.types.is_boolean(values.type):
        raise InputError(f"{cells.of} is {values.type}: to predict it, write names such as no and yes, or 0 and 1")
    text = pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
    words = _words(values) if text or pa.types.is_integer(values.type) else []
    if text and 2 * sum(map(is_number, words)) <= len(words):
        _checked(cells.words)
        return True, _noted_names(words, cells.of)
    numbers = _checked(cells.numbers)
    ids = np.unique(numbers).tolist()
    if len(ids) > min(MOST_CLASSES, max(2, len(numbers) // 5)) or any(value % 1 for value in ids):
        return False, ()
    few = f"{', '.join(f'{value:.0f}' for value in ids[:3])}{', ...' if len(ids) > 3 else ''}"
    is_range = ids == [*range(len(ids))]
    if not words or not all(map(WHOLE.fullmatch, words)):
        said = f"its numbers {few} look like class ids: to predict a class, write them as integers"
        return False, (said,) if is_range and len(ids) > 1 else ()
    if named_so:
        find_classes({*words}, of=cells.of)
    if is_range:
        return True, ()
    return False, (f"its whole numbers {few} are not class ids: to predict a class, write names, or 0, 1, 2, ...",)


def _noted_names(names: list[str], of: str) -> tuple[str, ...]:
    """Return a line if most names are numbers of another notation. Raises `InputError` if most rows differ, too."""
    numbers = [name for name in names if OTHER_NUMBER.fullmatch(name)]
    distinct = len({*names})
    unusual = distinct > 2 and 2 * distinct > len(names)
    if 2 * len(numbers) > len(names):
        if unusual:
            raise InputError(f"{of} has {numbers[0]!r}, which is text: write its numbers {PLAINLY}")
        return (f"{numbers[0]!r} is text, and so a class: to predict a number, write it {PLAINLY}",)
    if unusual:
        raise InputError(
            f"{of} has {distinct:,} different texts in {len(names):,} rows: a class needs several rows; to predict "
            "another column, call it `target`"
        )
    return ()


def _words(values: Any) -> list[str]:
    """Return the cells that are not empty, as text."""
    words: list[str] = pc.utf8_trim_whitespace(pc.cast(values, pa.string())).drop_null().to_pylist()
    return words


def _checked(read: Callable[[], T]) -> T:
    """Return a column as read. Raises `InputError` for its bad cells."""
    bad, found = Collected(), list[T]()
    with bad.column():
        found.append(read())
    bad.refuse()
    return found[0]
