"""Inspect a CSV or Parquet file and propose which column is the target and which are inputs."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv, parquet

from tapeline.ingest.bad_cells import BadCells
from tapeline.ingest.cells import Cells, is_number
from tapeline.ingest.source import SPLITS
from tapeline.ingest.table_file import Table
from tapeline.runtime.errors import InputError
from tapeline.scaffold.naming import free_name
from tapeline.scaffold.proposal import Proposal, class_name, marked_target, template
from tapeline.scaffold.target import target_kind
from tapeline.scaffold.trial import passed

ROWS, BYTES = 10_000, 2**24
"""Rows by which columns are chosen, or as many as this memory holds; then all rows are read as ingest reads them."""
HEADER = 2**16
"""How many bytes of the first line are examined."""
CLASSES = ("label", "class", "species", "category")
"""Names that mark a column of classes, in any case."""
IDENTIFIER = re.compile(r"(?i:(?:^|[_ -])(?:id|index|key|no|nr)$|^(?:row|unnamed: 0|__index_level_0__)?$)|[a-z]I[dD]$")
"""Names of a column that identifies the rows; the empty one, `Unnamed: 0` and `__index_level_0__` are of pandas."""


def propose(path: Path, needs: str, folder: Path) -> Proposal:
    """Return a proposal for a table. needs: the file as `params.yaml` names it; folder: the project's.

    Raises `InputError` for a table that ingest refuses, or that has no numeric columns to predict from.
    """
    _check_separator(path)
    columns, rows = _columns(path)
    doubt = _check_header(path, columns)
    if len(columns) < 2:
        raise InputError(
            f"{path} has {len(columns)} column: it needs a target and at least one column to predict it from"
        )
    split = {name.lower(): name for name in columns}.get("split")
    split = split if split is not None and _says_split(columns[split]) else None
    useless = dict.fromkeys(_constants(path, columns), "it is constant")
    useless |= {name: why for name, cells in columns.items() if (why := _numbering(name, cells))}
    if "" in columns and columns[""].values.null_count == rows:
        useless[""] = "it has no name and no values, as where lines end with a comma"
    last = next((name for name in reversed(columns) if name != split and name not in useless), None)
    target = marked_target(columns) or last
    if target is None:
        raise InputError(f"{path} has no target: each column numbers the rows, gives the split or is constant")
    inputs, said = _inputs({name: cells for name, cells in columns.items() if name not in (target, split)}, useless)
    if not inputs:
        why = f" ({said[0]})" if said else ""
        raise InputError(f"{path} has no column of numbers besides {target!r}{why}: text and categories need a builder")
    classes, noted = target_kind(columns[target], named_so=target.lower() in CLASSES)
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
        {"epochs": 50, "batch_size": trial.batch_size(32 if rows >= 200 else 8)},
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


def _check_header(path: Path, columns: dict[str, Cells]) -> list[str]:
    """Return what to say of names that are numbers, such as years.

    Raises `InputError` for a first row of data: it has numbers alone, or a text that is a value of its column too.
    """
    numbers = [name for name in columns if is_number(name)] if path.suffix.lower() != ".parquet" else []
    if not numbers:
        return []
    texts = [name for name in columns if name not in numbers]
    if not texts or any(_has(columns[name], name) for name in texts):
        raise InputError(f"{path} has numbers in its first row: add a row with the column names above it")
    return [
        f"the first row, with {numbers[0]!r} in it, is read as the column names: if it is data, add a row with names "
        "above it"
    ]


def _has(cells: Cells, word: str) -> bool:
    try:
        return word in cells.words().to_pylist()
    except (BadCells, InputError):
        return False


def _inputs(columns: dict[str, Cells], useless: dict[str, str]) -> tuple[list[str], list[str]]:
    """Return the columns of numbers to predict from, and a line for each that is left out.

    useless: why a column is left out though it holds numbers, by name.
    """
    inputs, said = [], []
    for name, cells in columns.items():
        if name in useless:
            said.append(f"column {name!r} is ignored: {useless[name]}")
            continue
        try:
            cells.numbers()
        except BadCells as error:
            cell = str(error.cells[0]).removeprefix(f"{cells.of}, ")
            said.append(f"column {name!r} is ignored: {cell}")
        except InputError as error:
            said.append(f"column {name!r} is ignored: {str(error).removeprefix(f'{cells.of} ')}")
        else:
            inputs.append(name)
    return inputs, said


def _numbering(name: str, cells: Cells) -> str | None:
    """Return why a column only identifies the rows, such as "it numbers the rows"; None if it does not."""
    numbers = _whole_numbers(cells)
    if numbers is None or len(np.unique(numbers)) < len(numbers):
        return None
    first = int(numbers.min())
    if first in (0, 1) and int(numbers.max()) - first == len(numbers) - 1:
        return "it numbers the rows"
    return (
        "it has a different whole number in each row, and the name of an identifier"
        if IDENTIFIER.search(name)
        else None
    )


def _constants(path: Path, columns: dict[str, Cells]) -> set[str]:
    """Return the columns of numbers that are the same in all rows, of which `columns` has the first."""
    first = {name: numbers[0] for name, cells in columns.items() if (numbers := _numbers(cells)) is not None}
    for rows in Table(path).rows([*first]) if first else ():
        for name, number in [*first.items()]:
            numbers = _numbers(rows.cells(name))
            if numbers is None or (numbers != number).any():
                del first[name]
        if not first:
            break
    return {*first}


def _whole_numbers(cells: Cells) -> NDArray[Any] | None:
    """Return the cells as numbers; None if one is not whole."""
    try:
        return cells.integers()
    except (BadCells, InputError):  # text such as "1.0"
        pass
    numbers = _numbers(cells)
    return None if numbers is None or not np.array_equal(numbers, np.floor(numbers)) else numbers


def _numbers(cells: Cells) -> NDArray[np.float32] | None:
    """Return the cells as numbers; None if one is not a number that ingest takes."""
    try:
        return cells.numbers()
    except (BadCells, InputError):
        return None


def _says_split(cells: Cells) -> bool:
    """Return whether every cell is the name of a split."""
    try:
        return {*cells.words().to_pylist()} <= {*SPLITS, "validation"}
    except (BadCells, InputError):
        return False


def _columns(path: Path) -> tuple[dict[str, Cells], int]:
    """Return the first rows' cells by column, as ingest reads them, and the number of rows."""
    table = Table(path)
    names = _names(path)
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise InputError(f"{path} has more than one column {twice[0]!r}: rename them, or leave all but one out")
    batches: list[Any] = []
    for rows in table.rows(names):
        batches.append(rows.batch)
        if sum(batch.num_rows for batch in batches) >= ROWS or sum(batch.nbytes for batch in batches) >= BYTES:
            break
    if not sum(batch.num_rows for batch in batches):
        raise InputError(f"{path} has no rows")
    whole = pa.Table.from_batches(batches).slice(0, ROWS)
    return {
        name: Cells(pa.concat_arrays(whole.column(name).chunks), 0, f"{path.name}: column {name!r}") for name in names
    }, whole.num_rows


def _names(path: Path) -> list[str]:
    if path.suffix.lower() == ".parquet":
        return [*parquet.read_schema(path).names]
    parsing = csv.ParseOptions(newlines_in_values=True)  # as ingest does
    with csv.open_csv(path, parse_options=parsing) as reader:
        return [*reader.schema.names]


def _feature(column: str) -> str:
    """Return a feature name for a column; `x` is reserved for the inputs."""
    name = re.sub(r"\W+", "_", column.lower()).strip("_") or "target"
    return "target" if name == "x" or not name.isidentifier() else name
