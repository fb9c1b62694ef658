"""Inspect a CSV or Parquet file and propose which column is the target and which are inputs."""

import re
from pathlib import Path
from typing import Any

from tapeline.runtime.errors import InputError
from tapeline.scaffold.proposal import Proposal, name_of, template

ROWS = 10_000
"""Maximum number of rows inspected; ingest checks all of them."""
MOST_CLASSES = 50
"""Integers with more distinct values than this are a quantity."""
TARGETS = ("label", "class", "target", "y", "species", "category", "outcome")
"""Names that mark a target column, in any case; else the last column is the target."""


def propose(path: Path, needs: str) -> Proposal:
    """Return a proposal for a table. needs: the file as `params.yaml` names it.

    Raises `InputError` for a table that cannot be read, or has no numeric columns to predict from.
    """
    columns, rows = _columns(path)
    if len(columns) < 2:
        raise InputError(f"{path} has {len(columns)} column: a target and one to predict it from are needed")
    by_case = {name.lower(): name for name in columns}
    split = by_case.get("split") if set(columns.get(by_case.get("split", ""), ())) <= {"train", "val", "test"} else None
    target = next((by_case[name] for name in TARGETS if name in by_case), [*columns][-1])
    said, inputs = [], []
    for name, values in columns.items():
        if name in (target, split):
            continue
        if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
            said.append(f"column {name!r} is ignored: it holds no numbers, or empty cells")
        elif len(set(values)) == rows and name.lower() in ("id", "index", "key", "row"):
            said.append(f"column {name!r} is ignored: it numbers the rows")
        else:
            inputs.append(name)
    if not inputs:
        raise InputError(f"{path} has no column of numbers beside {target!r}: text and categories need a builder")
    classes = _are_classes(columns[target])
    feature = _feature(target)
    said.insert(
        0, f"predicts {target!r} ({'a class' if classes else 'a number'}) from {len(inputs)} columns of numbers"
    )
    dataset: dict[str, Any] = {"source": "table", "needs": needs, "features": {"x": inputs}}
    dataset["features"][feature] = target if classes else [target]
    dataset |= {"label": feature} if classes else {}
    dataset |= {"split": split} if split else {"test": 0.2, "validation": 0.15}
    name = name_of(path.stem)
    return Proposal(
        name,
        dataset,
        {"learning_rate": 0.01, "units": 32},
        {"epochs": 50, "batch_size": 32 if rows >= 200 else 8},
        template("classifier.py" if classes else "regressor.py", target=feature, title=_class_name(name)),
        tuple(said),
    )


def _columns(path: Path) -> tuple[dict[str, list[Any]], int]:
    """Return the first rows' values by column, as Arrow reads them, and the number of rows."""
    import pyarrow
    import pyarrow.csv
    import pyarrow.parquet

    try:
        if path.suffix.lower() == ".parquet":
            table = next(iter(pyarrow.parquet.ParquetFile(path).iter_batches(ROWS)), None)
        else:
            with pyarrow.csv.open_csv(path) as reader:
                table = next(iter(reader), None)
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(f"{path} cannot be read as a table: {' '.join(str(error).split())}") from None
    if table is None or not table.num_rows:
        raise InputError(f"{path} has no rows")
    table = table.slice(0, ROWS)
    if len(set(table.schema.names)) < len(table.schema.names):
        raise InputError(f"{path} has two columns of one name: {', '.join(table.schema.names)}")
    return {name: table.column(name).to_pylist() for name in table.schema.names}, table.num_rows


def _are_classes(values: list[Any]) -> bool:
    if all(isinstance(value, int) for value in values):
        return len(set(values)) <= min(MOST_CLASSES, max(2, len(values) // 5))
    return not all(isinstance(value, int | float) for value in values)


def _feature(column: str) -> str:
    """Return a feature name for a column; `x` is reserved for the inputs."""
    name = re.sub(r"\W+", "_", column.lower()).strip("_") or "target"
    return "target" if name == "x" or not name.isidentifier() else name


def _class_name(name: str) -> str:
    title = "".join(part.capitalize() for part in name.split("-"))
    return title if title.isidentifier() else f"Table{title}"
