"""Inspect a CSV or Parquet file and propose which column is the target and which are inputs."""

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
from pyarrow import csv, parquet

from tapeline.ingest.cells import Cells, is_number
from tapeline.ingest.source import split_name
from tapeline.ingest.table_file import Table
from tapeline.runtime.errors import InputError
from tapeline.scaffold.columns import Column, pieces, survey
from tapeline.scaffold.naming import free_name
from tapeline.scaffold.proposal import TARGETS, Proposal, class_name, marked_target, template
from tapeline.scaffold.target import present, target_kind
from tapeline.scaffold.trial import passed

HEADER = 2**16
"""How many bytes of the first line are examined."""
CLASSES = ("label", "class", "species", "category")
"""Names that mark a column of classes, in any case."""


def propose(path: Path, needs: str, folder: Path) -> Proposal:
    """Return a proposal for a table. needs: the file as `params.yaml` names it; folder: the project's.

    Raises `InputError` for a table that ingest refuses, or that has no numeric columns to predict from.
    """
    _check_separator(path)
    table, names = Table(path), _names(path)
    doubt = _check_header(table, names)
    if len(names) < 2:
        raise InputError(
            f"{path} has {len(names)} column: it needs a target and at least one column to predict it from"
        )
    columns = survey(table, names)
    splits = (name for name in names if name.lower() == "split" and _gives_split(table, columns[name]))
    split = next(splits, None)
    candidates = [name for name, column in columns.items() if column.usable and not column.useless and name != split]
    marked = marked_target(names)
    target = marked or next(reversed(candidates), None)
    if target is None:
        raise InputError(
            f"{path} has no target: each column numbers the rows, gives the split, is constant or of a type that "
            "ingest does not take"
        )
    inputs, said = _inputs(column for name, column in columns.items() if name not in (target, split))
    if not inputs:
        why = f" ({said[0]})" if said else ""
        raise InputError(f"{path} has no column of numbers besides {target!r}{why}: text and categories need a builder")
    classes, noted = _kind(table, target, "of its name" if marked else "it is last")
    feature = _feature(target)
    first = f"predicts {target!r} ({'a class' if classes else 'a number'}) from {len(inputs)} columns of numbers"
    dataset: dict[str, Any] = {"source": "table", "needs": needs, "features": {"x": inputs}}
    dataset["features"][feature] = target if classes else [target]
    dataset |= {"label": feature} if classes else {}
    dataset |= {"split": split} if split else {"test": 0.2, "validation": 0.15}
    trial = passed(dataset, path)
    name, renamed = free_name(folder, path.stem)
    return Proposal(
        name,
        trial.dataset,
        {"learning_rate": 0.01, "units": 32},
        {"epochs": 50, "batch_size": trial.batch_size(32 if columns[target].rows >= 200 else 8)},
        template(
            "classifier.py" if classes else "regressor.py", input="x", target=feature, title=class_name(name, "Table")
        ),
        (first, *doubt, *noted, *said, *trial.said, *renamed),
    )


def _check_separator(path: Path) -> None:
    """Raise `InputError` for a CSV file with other separators than commas, which Arrow calls broken by a later row."""
    if path.suffix.lower() != ".csv":
        return
    with path.open("rb") as file:
        header = file.readline(HEADER).decode("utf-8-sig", "replace")
    if "," not in header and (found := re.search(r"[;\t|]", header)):
        raise InputError(f"{path} has the separator {found[0]!r}: save it with commas and decimal points")


def _check_header(table: Table, names: list[str]) -> list[str]:
    """Return what to say of names that are numbers, such as years.

    Raises `InputError` for a first row of data: it has numbers alone, or a text that is a value of its column too.
    """
    numbers = [name for name in names if is_number(name)] if table.path.suffix.lower() != ".parquet" else []
    if not numbers:
        return []
    texts = [name for name in names if name not in numbers]
    if not texts or any(_has_its_name(rows.cells(name), name) for rows in table.rows(texts) for name in texts):
        raise InputError(f"{table.path} has numbers in its first row: add a row with the column names above it")
    return [
        f"the first row, with {numbers[0]!r} in it, is read as the column names: if it is data, add a row with names "
        "above it"
    ]


def _has_its_name(cells: Cells, name: str) -> bool:
    return bool(pc.index(present(cells.values), name.strip()).as_py() >= 0)


def _gives_split(table: Table, column: Column) -> bool:
    """Return whether a column called `split` has text. Raises `InputError` for one that is not the name of a split."""
    if column.refused is None or not column.usable:
        return False
    found = False
    for rows in pieces(table, [column.name]):
        cells = rows.cells(column.name)
        for word in pc.unique(present(cells.values)).to_pylist():
            if word and not is_number(word):  # what is missing is refused with its row, by ingest
                found = True
                try:
                    split_name(word, of=cells.of)
                except InputError as error:
                    raise InputError(f"{error}, or rename the column if it is for something else") from None
    return found


def _inputs(columns: Iterable[Column]) -> tuple[list[str], list[str]]:
    """Return the columns of numbers to predict from, and a line for each that is left out."""
    inputs, said = [], []
    for column in columns:
        if why := column.useless or column.refused:
            said.append(f"column {column.name!r} is ignored: {why}")
        else:
            inputs.append(column.name)
    return inputs, said


def _kind(table: Table, target: str, because: str) -> tuple[bool, tuple[str, ...]]:
    """Return what `target_kind` does. Raises `InputError` that says why this column is the target."""
    try:
        return target_kind(
            lambda: (rows.cells(target) for rows in pieces(table, [target])), named_so=target.lower() in CLASSES
        )
    except InputError as error:
        if target.lower() == TARGETS[0]:
            raise
        raise InputError(
            f"{error}; {target!r} is taken as the target because {because}: to predict another column, call that one "
            f"`{TARGETS[0]}`"
        ) from None


def _names(path: Path) -> list[str]:
    """Return the names of the columns. Raises `InputError` for one that is there twice."""
    if path.suffix.lower() == ".parquet":
        names = [*parquet.read_schema(path).names]
    else:
        parsing = csv.ParseOptions(newlines_in_values=True)  # as ingest does
        with csv.open_csv(path, parse_options=parsing) as reader:
            names = [*reader.schema.names]
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise InputError(f"{path} has more than one column {twice[0]!r}: rename them, or leave all but one out")
    return names


def _feature(column: str) -> str:
    """Return a feature name for a column; `x` is reserved for the inputs."""
    name = re.sub(r"\W+", "_", column.lower()).strip("_") or "target"
    return "target" if name == "x" or not name.isidentifier() else name
