"""What must be known about all rows of a table before the first is written: classes, splits."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tapeline.ingest.bad_cells import Collected
from tapeline.ingest.csv_parts import Unusual
from tapeline.ingest.labels import Classes, find_classes
from tapeline.ingest.source import SPLITS
from tapeline.ingest.table_file import Rows, Table
from tapeline.runtime.errors import InputError


@dataclass(frozen=True)
class Survey:
    """The number of rows if they were counted, the splits in canonical order, and the label's classes."""

    rows: int | None
    splits: tuple[str, ...]
    classes: Classes | None


def survey(table: Table, label: str | None, split: str | None, then: Mapping[str, Any]) -> Survey:
    """Read the label and the split column once, if there are any.

    then: the types of the columns that will be read in parts next, as `Table.in_parts` takes them.
    """
    columns = [column for column in (label, split) if column is not None]
    if not columns:
        return Survey(None, ("train",), None)
    table.require(columns)

    def found(rows: Rows, bad: Collected) -> tuple[int, set[str], set[str]]:
        labels, splits = set[str](), set[str]()
        if label is not None:
            with bad.column():
                labels.update(pc.unique(rows.cells(label).words()).to_pylist())
        if split is not None:
            with bad.column():
                splits.update(rows.splits(split))
        return rows.batch.num_rows, labels, splits

    def work(rows: Rows, _: bool) -> tuple[int, set[str], set[str]] | None:
        piece = found(rows, bad := Collected())
        return None if bad.count else piece

    try:
        pieces = [piece for _, piece in table.in_parts(dict.fromkeys(columns, pa.string()), work, then)]
    except (Unusual, InputError):  # said again, of the first row that is at fault
        pieces, bad = [], Collected()
        for rows in table.rows(columns):
            pieces.append(found(rows, bad))
            if bad.full:
                break
        bad.refuse()
    names = {name for _, _, splits in pieces for name in splits} | ({"train"} if split is None else set())
    labels = {name for _, labels, _ in pieces for name in labels}
    classes = None if label is None else find_classes(labels, of=f"{table.path.name}: column {label!r}")
    return Survey(sum(count for count, _, _ in pieces), tuple(name for name in SPLITS if name in names), classes)
