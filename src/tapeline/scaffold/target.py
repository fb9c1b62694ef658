"""Decide whether a table's column is learned as a class or as a number, by the checks of ingest."""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tapeline.ingest.bad_cells import Collected
from tapeline.ingest.cells import Cells, Doubts, is_number
from tapeline.ingest.labels import WHOLE, find_classes
from tapeline.runtime.errors import InputError

MOST_CLASSES = 50
"""Integers with more distinct values than this are a quantity."""
MOST_TEXTS = 10_000
"""Text with more distinct values than this is refused: not all of them are kept in memory."""
OTHER_NUMBER = re.compile(r"(?=.*[,%])[+-]?[.,]*[0-9][0-9.,]*\s?%?")
"""A number that ingest does not read, such as `12,50`, `1,234.5` or `45%`."""
PLAINLY = "with a decimal point, and without thousands separators and percent signs"


def target_kind(column: Callable[[], Iterable[Cells]], *, named_so: bool) -> tuple[bool, tuple[str, ...]]:
    """Return whether the column holds classes, and a line if it may be meant otherwise.

    column: returns all cells, in order, at each call. named_so: whether the column's name says that it holds classes.
    Text is a number if most of it can be read so.
    Raises `InputError` that names the first cell which is missing or not like most of the column, for text that differs
    in most rows, for class ids that are not 0, 1, 2, ... in a column that is named so, and for a type that ingest does
    not take.
    """
    numbers = _numbers(column)
    if numbers.bad.count:
        names, bad = _names(column) if numbers.text else (Counter[str](), Collected())
        if not numbers.text or 2 * sum(count for name, count in names.items() if is_number(name)) > names.total():
            numbers.bad.refuse()
        bad.refuse()
        return True, _noted_names(names, numbers.of)
    ids = sorted(numbers.distinct)
    if len(ids) > min(MOST_CLASSES, max(2, numbers.rows // 5)) or any(value % 1 for value in ids):
        return False, ()
    few = f"{', '.join(f'{value:.0f}' for value in ids[:3])}{', ...' if len(ids) > 3 else ''}"
    is_range = ids == [*range(len(ids))]
    if not numbers.words or not all(map(WHOLE.fullmatch, numbers.words)):
        said = f"its numbers {few} look like class ids: to predict a class, write them as integers"
        return False, (said,) if is_range and len(ids) > 1 else ()
    if named_so:
        find_classes(numbers.words, of=numbers.of)
    if is_range:
        return True, ()
    return False, (f"its whole numbers {few} are not class ids: to predict a class, write names, or 0, 1, 2, ...",)


@dataclass
class _Numbers:
    """A column read as numbers."""

    of: str = ""
    text: bool = False
    rows: int = 0
    distinct: set[float] = field(default_factory=set)
    """All of them if they are no more than `MOST_CLASSES`."""
    words: set[str] = field(default_factory=set)
    """The same as they are written, if they are integers or text; some of them if they are more than `MOST_TEXTS`."""
    bad: Collected = field(default_factory=Collected)
    """If there are so many that reading stopped, the rest is not complete."""


def _numbers(column: Callable[[], Iterable[Cells]]) -> _Numbers:
    found, doubts = _Numbers(), Doubts()
    for cells in column():
        values = _decoded(cells.values)
        if pa.types.is_boolean(values.type):
            raise InputError(f"{cells.of} is {values.type}: to predict it, write names such as no and yes, or 0 and 1")
        found.of, found.text = cells.of, pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
        found.rows += len(values)
        with found.bad.column():
            numbers = cells.numbers(doubts)
            if len(found.distinct) <= MOST_CLASSES:
                found.distinct.update(np.unique(numbers).tolist())
                if len(found.words) <= MOST_TEXTS and (found.text or pa.types.is_integer(values.type)):
                    found.words.update(pc.unique(present(values)).to_pylist())
        if found.bad.full:
            return found
    with found.bad.column():
        doubts.refuse()
    return found


def _names(column: Callable[[], Iterable[Cells]]) -> tuple[Counter[str], Collected]:
    """Return how often a column has each text, up to the first that is one too many, and the cells without one."""
    names, bad = Counter[str](), Collected()
    for cells in column():
        with bad.column():
            cells.words()
        for found in pc.value_counts(present(cells.values)).to_pylist():
            names[found["values"]] += found["counts"]
        if len(names) > MOST_TEXTS:
            break
    return names, bad


def _noted_names(names: Counter[str], of: str) -> tuple[str, ...]:
    """Return a line if most names are numbers of another notation. Raises `InputError` if most rows differ, too."""
    numbers = {name: count for name, count in names.items() if OTHER_NUMBER.fullmatch(name)}
    first, distinct, rows = next(iter(numbers), ""), len(names), names.total()
    too_many = distinct > MOST_TEXTS
    unusual = too_many or (distinct > 2 and 2 * distinct > rows)
    if 2 * sum(numbers.values()) > rows:
        if unusual:
            raise InputError(f"{of} has {first!r}, which is text: write its numbers {PLAINLY}")
        return (f"{first!r} is text, and so a class: to predict a number, write it {PLAINLY}",)
    if unusual:
        if too_many:
            raise InputError(f"{of} has more than {MOST_TEXTS:,} different texts: they are too many classes")
        raise InputError(f"{of} has {distinct:,} different texts in {rows:,} rows: a class needs several rows")
    return ()


def present(values: Any) -> Any:
    """Return the cells that are not missing, as trimmed text."""
    return pc.utf8_trim_whitespace(pc.cast(_decoded(values), pa.string())).drop_null()


def _decoded(values: Any) -> Any:
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values
