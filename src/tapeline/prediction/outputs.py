"""Answers as CSV or JSON lines: one line per example, starting with its file and its index in that file."""

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TextIO

import numpy as np
from numpy.typing import NDArray

from tapeline.prediction.inputs import Piece

Format = Literal["csv", "jsonl"]


def named(answers: Mapping[str, NDArray[Any]], classes: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Return the answers with an added `class_name` if `class` indexes known classes.

    classes: their names, in index order; an index out of range has an empty name.
    """
    chosen = answers.get("class")
    if chosen is None or not classes or "class_name" in answers or not np.issubdtype(chosen.dtype, np.integer):
        return dict(answers)
    names = [classes[one] if 0 <= one < len(classes) else "" for one in chosen.ravel().tolist()]
    return {**answers, "class_name": np.array(names, object).reshape(chosen.shape)}


def not_finite(columns: Mapping[str, NDArray[Any]]) -> list[int]:
    """Return the indices of the examples with a NaN or infinity. columns: values, shape (examples, ...), by name."""
    rows: set[int] = set()
    for values in columns.values():
        if values.dtype.kind in "fc" and not (finite := np.isfinite(values)).all():
            rows |= set(np.flatnonzero(~finite.reshape(len(values), -1).all(axis=1)).tolist())
    return sorted(rows)


class Writer:
    """Writes to an open text file."""

    def __init__(self, file: TextIO, form: Format) -> None:
        self._file, self._form, self._named = file, form, False

    def __call__(self, piece: Piece, answers: Mapping[str, NDArray[Any]]) -> None:
        """Write the answers for one piece. answers: output → values of shape (examples, ...)."""
        if self._form == "jsonl":
            for number in range(len(piece)):
                row = {name: _plain(values[number]) for name, values in answers.items()}
                print(json.dumps({"file": str(piece.file), "row": piece.first + number, **row}), file=self._file)
            return
        table = csv.writer(self._file, lineterminator="\n")
        if not self._named:
            table.writerow(
                ["file", "row", *(name for output, values in answers.items() for name in _names(output, values))]
            )
            self._named = True
        for number in range(len(piece)):
            cells = [_plain(cell) for values in answers.values() for cell in np.ravel(values[number])]
            table.writerow([piece.file, piece.first + number, *cells])


def _names(output: str, values: NDArray[Any]) -> Iterator[str]:
    if values.ndim == 1:
        yield output
    else:
        yield from (f"{output}.{number}" for number in range(int(np.prod(values.shape[1:]))))


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="replace")
    if isinstance(value, np.ndarray):
        return [_plain(inner) for inner in value]
    return value.item() if isinstance(value, np.generic) else value
