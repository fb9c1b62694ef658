"""A CSV or Parquet file as a source: streamed in record batches, never fully in memory. No TensorFlow here.

Features are float32; the label and the features in `integers` are int64. CSV cells are first read as text, so that a
bad one can be reported with value, column and row. The test and validation splits go by the `key` column if there is
one, otherwise by the row's content, so that neither adding nor sorting rows changes them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import csv, parquet

from tapeline.config.ingest import TableSource
from tapeline.dataset.columns import Feature
from tapeline.ingest import csv_parts
from tapeline.ingest.bad_cells import Collected
from tapeline.ingest.cells import EXACT, Cells, check_numbers, check_words
from tapeline.ingest.class_ids import LooksLikeIds
from tapeline.ingest.csv_parts import Part, Unusual
from tapeline.ingest.fractions import Fractions, Keys
from tapeline.ingest.hashed import Hashed
from tapeline.ingest.in_order import in_order
from tapeline.ingest.labels import Classes, find_classes
from tapeline.ingest.source import SPLITS, Examples, Source, chosen_features, split_name
from tapeline.ingest.split import contents
from tapeline.runtime.errors import InputError

T = TypeVar("T")

CSV_BLOCK_BYTES = csv_parts.BLOCK_BYTES
PARQUET_ROWS = 4096

Wanted = Mapping[str, str | tuple[str, ...]]


def read(settings: TableSource, path: Path) -> Source:
    """Open a table. Raises `InputError` for a missing column and, if there is a label, for its bad values."""
    table = _Table(path)
    hashed = Hashed(path)
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
    origin = {"kind": "table", "name": path.name}
    return Source(
        origin=origin,
        features=features,
        splits=_splits(survey.splits, settings),
        examples=_hashed(_examples(table, decoder, settings, features, notes, fractions), hashed, origin),
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


def _hashed(examples: Iterator[Examples], hashed: Hashed, origin: dict[str, str]) -> Iterator[Examples]:
    """Yield all examples, then complete `origin`. Raises `InputError` if the file has changed meanwhile."""
    yield from examples
    origin["sha256"] = hashed.sha256()


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

    def rows(self, columns: Iterable[str], skip: int = 0) -> Iterator[_Rows]:
        """Yield all rows of the given columns but the first `skip`, in order."""
        chosen = list(dict.fromkeys(columns))
        first = 0
        with self._reading():
            for batch in self._open_csv(chosen) if self._csv else self._open_parquet(chosen):
                batch.validate(full=not self._csv)  # Arrow does not check that text in a Parquet file is UTF-8
                done = min(max(skip - first, 0), batch.num_rows)
                if done < batch.num_rows:
                    yield _Rows(batch.slice(done), first + done, self.path.name)
                first += batch.num_rows

    def in_parts(self, types: Mapping[str, Any], work: Callable[[_Rows, bool], T | None]) -> Iterator[tuple[int, T]]:
        """Yield the first row and `work(rows, plain)` for parts of a CSV file, in order, computed in threads.

        types: Arrow's type of each wanted column. Where it cannot be had, or `work` returns None, `plain` is false and
        all columns are text. Raises `Unusual` if there is no result even then, and for a Parquet file.
        """
        if not self._csv:
            raise Unusual

        def computed(part: Part) -> tuple[int, T]:
            for plain, kinds in ((True, types), (False, dict.fromkeys(types, pa.string()))):
                batch = csv_parts.parse(part, self._names, kinds)
                rows = None if batch is None else _Rows(batch, 0, self.path.name)
                if rows is not None and (result := work(rows, plain)) is not None:
                    return rows.batch.num_rows, result
            raise Unusual

        first = 0
        with self._reading(), closing(in_order(csv_parts.parts(self.path), computed)) as found:
            for count, result in found:
                yield first, result
                first += count

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

    @property
    def types(self) -> dict[str, Any]:
        """The type to read each column of a CSV file as: float64, or text for labels and whole numbers."""
        text = {name for name in self.wanted if name == self.label or name in self.integers}
        kinds = {column: pa.float64() for of in self.wanted.values() for column in _columns(of)}
        return kinds | {column: pa.string() for name in text for column in _columns(self.wanted[name])}

    def has_large(self, values: Mapping[str, NDArray[Any]]) -> bool:
        """Return whether there is a float32 that may be a rounded whole number."""
        numbers = (value for value in values.values() if value.dtype == np.float32 and value.size)
        return any(value.max() >= EXACT or value.min() <= -EXACT for value in numbers)

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

    def found(rows: _Rows, bad: Collected) -> tuple[int, set[str], set[str]]:
        labels, splits = set[str](), {"train"} if split is None else set[str]()
        if label is not None:
            with bad.column():
                labels.update(pc.unique(rows.cells(label).words()).to_pylist())
        if split is not None:
            with bad.column():
                splits.update(rows.splits(split))
        return rows.batch.num_rows, labels, splits

    def work(rows: _Rows, _: bool) -> tuple[int, set[str], set[str]] | None:
        piece = found(rows, bad := Collected())
        return None if bad.count else piece

    try:
        pieces = [piece for _, piece in table.in_parts(dict.fromkeys(columns, pa.string()), work)]
    except (Unusual, InputError):  # said again, of the first row that is at fault
        pieces, bad = [], Collected()
        for rows in table.rows(columns):
            pieces.append(found(rows, bad))
            if bad.full:
                break
        bad.refuse()
    names = {name for _, _, splits in pieces for name in splits}
    labels = {name for _, labels, _ in pieces for name in labels}
    classes = None if label is None else find_classes(labels, of=f"{table.path.name}: column {label!r}")
    return _Survey(sum(count for count, _, _ in pieces), tuple(name for name in SPLITS if name in names), classes)


@dataclass(frozen=True)
class _Piece:
    """Some rows, decoded."""

    count: int
    values: dict[str, NDArray[Any]]
    keys: list[str] | None
    splits: list[str] | None


def _piece(rows: _Rows, decoder: _Decoder, settings: TableSource, bad: Collected) -> _Piece:
    """Decode some rows. Adds bad cells to `bad`; then the piece is not complete."""
    values = decoder.values(rows, bad)
    keys = splits = None
    if settings.key is not None:
        with bad.column():
            keys = rows.cells(settings.key).words().to_pylist()
    if settings.split is not None and not bad.count:
        splits = rows.splits(settings.split)
    return _Piece(rows.batch.num_rows, values, keys, splits)


def _pieces(table: _Table, decoder: _Decoder, settings: TableSource) -> Iterator[tuple[int, _Piece]]:
    """Yield all rows, decoded, and the number of the first. Raises `InputError` for bad cells after the last row."""
    words = [column for column in (settings.split, settings.key) if column is not None]
    types = decoder.types | dict.fromkeys(words, pa.string())

    def work(rows: _Rows, plain: bool) -> _Piece | None:
        bad = Collected()
        piece = _piece(rows, decoder, settings, bad)
        # Whether a large number was written as a whole number, which float32 must not round, only its text tells.
        return None if bad.count or (plain and decoder.has_large(piece.values)) else piece

    done = 0
    try:
        for first, piece in table.in_parts(types, work):
            yield first, piece
            done = first + piece.count
        return
    except (Unusual, InputError):  # said again, of the first row that is at fault
        pass
    bad = Collected()
    for rows in table.rows(types, skip=done):
        piece = _piece(rows, decoder, settings, bad)
        if bad.full:
            break
        if not bad.count:  # else the other bad cells are collected
            yield rows.first, piece
    bad.refuse()


def _examples(
    table: _Table,
    decoder: _Decoder,
    settings: TableSource,
    features: Mapping[str, Feature],
    notes: list[str],
    fractions: Fractions | None,
) -> Iterator[Examples]:
    scalars = [name for name, of in decoder.wanted.items() if isinstance(of, str) and name not in decoder.integers]
    unsaid = {name: LooksLikeIds(name) for name in (scalars if decoder.label is None else ())}
    for first, piece in _pieces(table, decoder, settings):
        numbers, values = range(first, first + piece.count), piece.values
        for name, looks in unsaid.items():
            looks.add(values[name])
        keys = [str(row) for row in numbers] if piece.keys is None else piece.keys
        examples = Examples("train", keys, values, own_keys=piece.keys is not None)
        if piece.splits is not None:
            splits = np.array(piece.splits)
        elif fractions is not None:
            named = contents(values, features) if piece.keys is None else keys
            splits = np.array(SPLITS)[fractions.places(numbers, named)]
        else:
            yield examples
            continue
        for name in SPLITS:
            if (chosen := splits == name).any():
                yield examples.select(chosen, name)
    notes += [note for looks in unsaid.values() for note in looks.notes()]
