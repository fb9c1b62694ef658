"""A CSV or Parquet file as a source: streamed in record batches, never fully in memory. No TensorFlow here.

Features are float32; the label and the features in `integers` are int64. CSV cells are first read as text, so that a
bad one can be reported with value, column and row. The test and validation splits go by the `key` column if there is
one, otherwise by the row's content, so that neither adding nor sorting rows changes them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import csv, parquet

from tapeline.config.ingest import TableSource
from tapeline.dataset.columns import Feature
from tapeline.ingest.bad_cells import Collected
from tapeline.ingest.cells import Cells, check_numbers, check_words
from tapeline.ingest.class_ids import LooksLikeIds
from tapeline.ingest.fractions import Fractions, Keys
from tapeline.ingest.labels import Classes, find_classes
from tapeline.ingest.source import SPLITS, Examples, Source, chosen_features, split_name
from tapeline.ingest.split import contents
from tapeline.runtime import files
from tapeline.runtime.errors import InputError

CSV_BLOCK_BYTES = 2**20
PARQUET_ROWS = 4096

Wanted = Mapping[str, str | tuple[str, ...]]


def read(settings: TableSource, path: Path) -> Source:
    """Open a table. Raises `InputError` for a missing column and, if there is a label, for its bad values."""
    table = _Table(path)
    sha256 = files.sha256(path)
    names = chosen_features(settings.features, settings.columns, of=f"table {path.name}")
    wanted = {name: settings.features[name] for name in names}
    label = settings.label if settings.label in names else None
    keeping = [column for column in (settings.split, settings.key, settings.stratify) if column is not None]
    table.require([column for name in names for column in _columns(wanted[name])] + keeping)
    for name in names:
        for column in _columns(wanted[name]):
            table.check_type(column, check_words if name == label else check_numbers)
    for column in keeping:
        table.check_type(column, check_words)
    survey = _survey(table, str(wanted[label]) if label else None, settings.split)
    features = {
        name: _type(wanted[name], survey.classes if name == label else None, whole=name in settings.integers)
        for name in names
    }
    decoder = _Decoder(wanted, label, survey.classes, settings.integers)
    fractions = _fractions(table, settings, decoder, features)
    notes: list[str] = []
    return Source(
        origin={"kind": "table", "name": path.name, "sha256": sha256},
        features=features,
        splits=_splits(survey.splits, settings),
        examples=_unchanged(_examples(table, decoder, settings, features, notes, fractions), path, sha256),
        total=survey.rows,
        validation_cut=settings.stratify is not None,
        notes=notes,
    )


def _splits(found: tuple[str, ...], settings: TableSource) -> tuple[str, ...]:
    """Return the splits in the table's split column, or those that the fractions create."""
    cut = {"test": settings.test, "val": settings.validation if settings.stratify is not None else 0.0}
    return tuple(split for split in SPLITS if split in found or cut.get(split))


def _fractions(
    table: "_Table", settings: TableSource, decoder: "_Decoder", features: Mapping[str, Feature]
) -> Fractions | None:
    """Return how to split the table, if at all. Strata need a pass over all rows before the first is written."""
    if settings.stratify is None:
        return Fractions(test=settings.test, validation=0.0) if settings.test else None
    ids: dict[str, int] = {}
    strata, keys, bad = [np.empty(0, np.int64)], Keys(), Collected()
    for rows in table.rows([*decoder.columns, settings.stratify]):
        values = decoder.values(rows, bad)
        with bad.column():
            words = rows.cells(settings.stratify).words().to_pylist()
            strata.append(np.array([ids.setdefault(word, len(ids)) for word in words], np.int64))
        if bad.full:
            break
        if not bad.count:
            keys.add(contents(values, features))
    bad.refuse()
    return Fractions(test=settings.test, validation=settings.validation, strata=np.concatenate(strata), keys=keys)


def _unchanged(examples: Iterator[Examples], path: Path, sha256: str) -> Iterator[Examples]:
    """Yield all examples, then hash the file again. Raises `InputError` if it has changed."""
    yield from examples
    if files.sha256(path) != sha256:
        raise InputError(f"{path.name} changed while it was read: ingest again when nothing writes to it")


@dataclass(frozen=True)
class _Rows:
    """Consecutive rows of a table."""

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
            raise InputError(f"{path.name} is not a table: a file that ends in .csv or .parquet is")
        _readable(path)
        with self._reading():
            self._schema = self._open_csv(None).schema if self._csv else parquet.read_schema(path)
            self._names = self._schema.names  # decoding may fail

    def require(self, columns: Iterable[str]) -> None:
        """Raise `InputError` for a column that the table lacks or has more than once."""
        known = ", ".join(repr(name) if name.strip() != name else " ".join(name.split()) for name in self._names)
        for column in columns:
            if self._names.count(column) != 1:
                what = "no column" if column not in self._names else "more than one column"
                blank = [name for name in self._names if name != column and name.strip() == column.strip()]
                remedy = f"; take the blanks out of the header's {blank[0]!r}, or name it so" if blank else ""
                raise InputError(f"{self.path.name} has {what} {column!r}: it has {known}{remedy}")

    def check_type(self, column: str, check: Callable[[Any, str], None]) -> None:
        """Apply `check` to a Parquet column's type, to raise `InputError`. CSV cells are all text at first."""
        if not self._csv:
            check(self._schema.field(column).type, f"{self.path.name}: column {column!r}")

    def rows(self, columns: Iterable[str]) -> Iterator[_Rows]:
        """Yield all rows of the given columns, in order."""
        chosen = list(dict.fromkeys(columns))
        first = 0
        with self._reading():
            for batch in self._open_csv(chosen) if self._csv else self._open_parquet(chosen):
                batch.validate(full=not self._csv)  # Arrow does not check that text in a Parquet file is UTF-8
                yield _Rows(batch, first, self.path.name)
                first += batch.num_rows

    def _open_csv(self, columns: list[str] | None) -> Any:
        return csv.open_csv(
            self.path,
            # A single thread: only then do errors name the malformed row.
            read_options=csv.ReadOptions(use_threads=False, block_size=CSV_BLOCK_BYTES),
            convert_options=csv.ConvertOptions(
                include_columns=columns,
                column_types=dict.fromkeys(columns or (), pa.string()),
                strings_can_be_null=True,
                null_values=[""],
            ),
            # Otherwise a newline inside quotes is accepted or refused depending on where a block ends.
            parse_options=csv.ParseOptions(newlines_in_values=True),
        )

    def _open_parquet(self, columns: list[str]) -> Any:
        # Without the first two options, a whole row group, possibly the whole file, is read at once.
        file = parquet.ParquetFile(self.path, pre_buffer=False, buffer_size=2**20, page_checksum_verification=True)
        return file.iter_batches(PARQUET_ROWS, columns=columns)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError) as error:
            raise self._unreadable(error) from None
        except MemoryError:
            raise self._unreadable(ValueError("it asks for more memory than there is")) from None
        except OSError as error:
            if error.errno is None:  # from Arrow for a truncated file, not from the system for a failed disk
                raise self._unreadable(error) from None
            raise

    def _unreadable(self, error: Exception) -> InputError:
        kind, reason = "CSV" if self._csv else "Parquet", " ".join(str(error).split())
        if "straddling" in reason:
            reason = f"a row is longer than {CSV_BLOCK_BYTES:,} bytes, or a quote is not closed"
        return InputError(f"{self.path.name} cannot be read as {kind}: {reason}; fix it or get it again")


def _readable(path: Path) -> None:
    """Raise `InputError` for a file that this user may not read; Arrow's error does not name the file."""
    try:
        path.open("rb").close()
    except PermissionError:
        raise InputError(f"{path.name} cannot be read by this user: allow it with `chmod u+r`") from None


def _columns(feature: str | tuple[str, ...]) -> tuple[str, ...]:
    return (feature,) if isinstance(feature, str) else feature


def _type(columns: str | tuple[str, ...], classes: Classes | None, *, whole: bool) -> Feature:
    if classes is not None:
        return Feature((), "int64", classes.names)
    return Feature(() if isinstance(columns, str) else (len(columns),), "int64" if whole else "float32")


@dataclass(frozen=True)
class _Decoder:
    """Converts rows to features."""

    wanted: Wanted
    label: str | None
    classes: Classes | None
    integers: tuple[str, ...]

    @property
    def columns(self) -> list[str]:
        return [column for feature in self.wanted.values() for column in _columns(feature)]

    def values(self, rows: _Rows, bad: Collected) -> dict[str, NDArray[Any]]:
        """Return the features of some rows. Adds bad cells to `bad`; features may then be missing."""
        values: dict[str, NDArray[Any]] = {}
        for name, of in self.wanted.items():
            parts: list[NDArray[Any]] = []
            for column in _columns(of):
                cells = rows.cells(column)
                with bad.column():
                    if name == self.label and self.classes is not None:
                        parts.append(self.classes.encode(cells.words()))
                    else:
                        parts.append(cells.integers() if name in self.integers else cells.numbers())
            if not bad.count:
                values[name] = parts[0] if isinstance(of, str) else np.stack(parts, axis=1)
        return values


@dataclass(frozen=True)
class _Survey:
    """What must be known about all rows before the first is written."""

    rows: int | None
    splits: tuple[str, ...]
    classes: Classes | None


def _survey(table: _Table, label: str | None, split: str | None) -> _Survey:
    """Read the label and the split column once, if there are any."""
    columns = [column for column in (label, split) if column is not None]
    if not columns:
        return _Survey(None, ("train",), None)
    table.require(columns)
    labels: set[str] = set()
    splits: set[str] = set()
    bad = Collected()
    count = 0
    for rows in table.rows(columns):
        count += rows.batch.num_rows
        if label is not None:
            with bad.column():
                labels.update(pc.unique(rows.cells(label).words()).to_pylist())
        with bad.column():
            splits.update(("train",) if split is None else rows.splits(split))
        if bad.full:
            break
    bad.refuse()
    classes = None if label is None else find_classes(labels, of=f"{table.path.name}: column {label!r}")
    return _Survey(count, tuple(name for name in SPLITS if name in splits), classes)


def _examples(
    table: _Table,
    decoder: _Decoder,
    settings: TableSource,
    features: Mapping[str, Feature],
    notes: list[str],
    fractions: Fractions | None,
) -> Iterator[Examples]:
    split, key = settings.split, settings.key
    scalars = [name for name, of in decoder.wanted.items() if isinstance(of, str) and name not in decoder.integers]
    unsaid = {name: LooksLikeIds(name) for name in (scalars if decoder.label is None else ())}
    bad = Collected()
    for rows in table.rows([*decoder.columns, *(column for column in (split, key) if column is not None)]):
        values = decoder.values(rows, bad)
        numbers = range(rows.first, rows.first + rows.batch.num_rows)
        keys = [str(row) for row in numbers]
        if key is not None:
            with bad.column():
                keys = rows.cells(key).words().to_pylist()
        if bad.full:
            break
        if bad.count:
            continue  # to collect the other bad cells
        for name, looks in unsaid.items():
            looks.add(values[name])
        examples = Examples("train", keys, values, own_keys=key is not None)
        if split is not None:
            splits = np.array(rows.splits(split))
        elif fractions is not None:
            splits = np.array(SPLITS)[fractions.places(numbers, keys if key else contents(values, features))]
        else:
            yield examples
            continue
        for name in SPLITS:
            if (chosen := splits == name).any():
                yield examples.select(chosen, name)
    bad.refuse()
    notes += [note for looks in unsaid.values() for note in looks.notes()]
