"""A CSV or Parquet file as a source: streamed in record batches, never held as a whole. No TensorFlow here.

Features are float32, the label int64. A CSV cell is read as text first, so that a mistake is named by its value,
column and row. An example's key is the number of its row, so appending rows leaves the validation cut as it was.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import csv, parquet

from tapeline import files
from tapeline.dataset import Feature
from tapeline.errors import InputError
from tapeline.ingest.cells import Cells
from tapeline.ingest.labels import Classes, find_classes
from tapeline.ingest.settings import TableSource
from tapeline.ingest.source import SPLITS, Examples, Source, chosen_features, split_name

CSV_BLOCK_BYTES = 2**20
PARQUET_ROWS = 4096

Wanted = Mapping[str, str | tuple[str, ...]]


def read(settings: TableSource, path: Path) -> Source:
    """Open a table. Raises `InputError` for a column that is not there and, if there is a label, for its bad values."""
    table = _Table(path)
    names = chosen_features(settings.features, settings.columns, of=f"table {path.name}")
    wanted = {name: settings.features[name] for name in names}
    label = settings.label if settings.label in names else None
    split = settings.split
    table.require([column for name in names for column in _columns(wanted[name])])
    survey = _survey(table, str(wanted[label]) if label else None, split)
    return Source(
        origin={"kind": "table", "name": path.name, "sha256": files.sha256(path)},
        features={name: _type(wanted[name], survey.classes if name == label else None) for name in names},
        splits=survey.splits,
        examples=_examples(table, wanted, label, survey.classes, split),
        total=survey.rows,
    )


@dataclass(frozen=True)
class _Rows:
    """Some consecutive rows of a table."""

    batch: pa.RecordBatch
    first: int
    table: str

    def cells(self, column: str) -> Cells:
        return Cells(self.batch.column(column), self.first, f"{self.table}: column {column!r}")

    def splits(self, column: str) -> list[str]:
        """Return `train`, `val` or `test` for each row."""
        cells = self.cells(column)
        words = cells.words().to_pylist()
        names = {word: split_name(word, of=cells.of) for word in dict.fromkeys(words)}
        return [names[word] for word in words]


class _Table:
    """A table file of either format, read as a stream of rows."""

    def __init__(self, path: Path) -> None:
        self.path, self._csv = path, path.suffix.lower() == ".csv"
        if not path.is_file() or path.suffix.lower() not in {".csv", ".parquet"}:
            raise InputError(f"{path.name} is no table: a file that ends in .csv or .parquet is")
        with self._reading():
            self._names = self._open_csv(None).schema.names if self._csv else parquet.read_schema(path).names

    def require(self, columns: Iterable[str]) -> None:
        """Raise `InputError` for a column that the table has not got, or has got twice."""
        known = ", ".join(" ".join(name.split()) for name in self._names)
        for column in columns:
            if self._names.count(column) != 1:
                what = "no column" if column not in self._names else "more than one column"
                raise InputError(f"{self.path.name} has {what} {column!r}: it has {known}")

    def rows(self, columns: Iterable[str]) -> Iterator[_Rows]:
        """Yield the rows of some columns, from the first to the last."""
        chosen = list(dict.fromkeys(columns))
        first = 0
        with self._reading():
            for batch in self._open_csv(chosen) if self._csv else self._open_parquet(chosen):
                yield _Rows(batch, first, self.path.name)
                first += batch.num_rows

    def _open_csv(self, columns: list[str] | None) -> Any:
        return csv.open_csv(
            self.path,
            # One thread: only then does an error say which row is malformed.
            read_options=csv.ReadOptions(use_threads=False, block_size=CSV_BLOCK_BYTES),
            convert_options=csv.ConvertOptions(
                include_columns=columns,
                column_types=dict.fromkeys(columns or (), pa.string()),
                strings_can_be_null=True,
                null_values=[""],
            ),
        )

    def _open_parquet(self, columns: list[str]) -> Any:
        # Without these two a whole row group, which may be the whole file, is read at once.
        file = parquet.ParquetFile(self.path, pre_buffer=False, buffer_size=2**20)
        return file.iter_batches(PARQUET_ROWS, columns=columns)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError) as error:
            raise self._unreadable(error) from None
        except OSError as error:
            if error.errno is None:  # Arrow's word for a file that was cut, not the system's for a disk that failed
                raise self._unreadable(error) from None
            raise

    def _unreadable(self, error: Exception) -> InputError:
        kind, reason = "CSV" if self._csv else "Parquet", " ".join(str(error).split())
        return InputError(f"{self.path.name} cannot be read as {kind}: {reason}; mend it or bring it anew")


def _columns(feature: str | tuple[str, ...]) -> tuple[str, ...]:
    return (feature,) if isinstance(feature, str) else feature


def _type(columns: str | tuple[str, ...], classes: Classes | None) -> Feature:
    if classes is not None:
        return Feature((), "int64", classes.names)
    return Feature(() if isinstance(columns, str) else (len(columns),), "float32")


@dataclass(frozen=True)
class _Survey:
    """What must be known of all rows before the first is written."""

    rows: int | None
    splits: tuple[str, ...]
    classes: Classes | None


def _survey(table: _Table, label: str | None, split: str | None) -> _Survey:
    """Read the label and the split column once, where there is one."""
    columns = [column for column in (label, split) if column is not None]
    if not columns:
        return _Survey(None, ("train",), None)
    table.require(columns)
    labels: set[str] = set()
    splits: set[str] = set()
    count = 0
    for rows in table.rows(columns):
        count += rows.batch.num_rows
        if label is not None:
            labels.update(pc.unique(rows.cells(label).words()).to_pylist())
        splits.update(("train",) if split is None else rows.splits(split))
    classes = None if label is None else find_classes(labels, of=f"{table.path.name}: column {label!r}")
    return _Survey(count, tuple(name for name in SPLITS if name in splits), classes)


def _examples(
    table: _Table, wanted: Wanted, label: str | None, classes: Classes | None, split: str | None
) -> Iterator[Examples]:
    columns = [column for feature in wanted.values() for column in _columns(feature)]
    for rows in table.rows([*columns, split] if split is not None else columns):
        values: dict[str, NDArray[Any]] = {}
        for name, of in wanted.items():
            if name == label and classes is not None:
                values[name] = classes.encode(rows.cells(str(of)).words())
            elif isinstance(of, str):
                values[name] = rows.cells(of).numbers()
            else:
                values[name] = np.stack([rows.cells(column).numbers() for column in of], axis=1)
        keys = [str(rows.first + row) for row in range(rows.batch.num_rows)]
        examples = Examples("train", keys, values)
        if split is None:
            yield examples
            continue
        splits = np.array(rows.splits(split))
        for name in SPLITS:
            if (chosen := splits == name).any():
                yield examples.select(chosen, name)
