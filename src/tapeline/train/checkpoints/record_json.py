"""A checkpoint's record in JSON, which has no NaN and no infinity: a validation may measure either."""

import math
from collections.abc import Mapping
from typing import Any

_ODD = ("nan", "inf", "-inf")


def written(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record with each number of the history that is not finite as text: "nan", "inf" or "-inf"."""
    return {**record, "history": [{name: _text(value) for name, value in row.items()} for row in record["history"]]}


def read(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record that `written` was given. What it never writes stays as it is, to be refused."""
    rows = record.get("history")
    if not isinstance(rows, list):
        return dict(record)
    return {**record, "history": [_numbers(row) if isinstance(row, dict) else row for row in rows]}


def _text(value: float) -> float | str:
    return value if math.isfinite(value) else repr(float(value))


def _numbers(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: float(value) if value in _ODD else value for name, value in row.items()}
