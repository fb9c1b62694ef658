"""A table's file, CSV or Parquet: its rows as a stream, or what threads make of its parts.

    table = Table(Path("t.csv"))
    for rows in table.rows(["area", "price"]):
        rows.cells("area").numbers()

CSV cells are first read as text, so that a bad one can be reported with value, column and row.
"""

from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from pyarrow import csv, parquet

from tapeline.ingest import csv_parts, csv_quotes
from tapeline.ingest.cells import Cells
from tapeline.ingest.csv_parts import Kept, Parsed, Part, Unusual
from tapeline.ingest.source import split_name
from tapeline.ingest.threads import threads
from tapeline.runtime import files
from tapeline.runtime.errors import InputError
from tapeline.runtime.overlap import in_order

T = TypeVar("T")

CSV_BLOCK_BYTES = csv_parts.BLOCK_BYTES
PARQUET_ROWS, MOST_ROWS = 4096, 2**17
"""The least and the most rows of a Parquet file's part; more than the least only without text."""
PARQUET_BYTES = 2**21
"""The approximate size, as float64, of parts of more than `PARQUET_ROWS` rows; smaller ones cost more hand-overs."""
READ_AHEAD = 2**25
"""The approximate number of bytes of a Parquet file that are converted at once; one part always is."""
UTF16 = (b"\xff\xfe", b"\xfe\xff")
"""How a text in UTF-16 begins, such as a spreadsheet's "Unicode text"."""
COMPRESSED = {
    b"\x1f\x8b": "gzip",
    b"PK\3\4": "zip",
    b"BZh91AY": "bzip2",
    b"\xfd7zXZ": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
}
"""How a compressed file begins, whatever it is called → the program."""
PARQUET = b"PAR1\x15"
UNPACK = "unpack it, or save it as Parquet"
REMEDIES = {
    **dict.fromkeys((".gz", ".zip", ".bz2", ".xz", ".zst"), UNPACK),
    **dict.fromkeys(
        (".npy", ".npz", ".h5", ".mat"), "give a .csv or .parquet file, or write a TFDS builder that reads it"
    ),
    **dict.fromkeys((".tsv", ".txt"), "give a .csv or .parquet file: commas separate the columns"),
    **dict.fromkeys((".xlsx", ".xls", ".ods"), "save it as .csv from the spreadsheet program"),
    **dict.fromkeys((".json", ".jsonl", ".feather", ".arrow"), "save it as Parquet, such as with pandas"),
}
"""What is no table by its name → what to do."""
MOST_NAMED = 50
"""Columns that a message names."""
CONVERTING = 4
"""Threads that convert a Parquet file's parts: one reader keeps no more of them busy."""


@dataclass(frozen=True)
class Rows:
    """Consecutive rows of a table."""

    batch: pa.RecordBatch
    first: int
    table: str

    def cells(self, column: str) -> Cells:
        """Return a column's cells, which know where they stand."""
        return Cells(self.batch.column(column), self.first, f"{self.table}: column {column!r}")

    def splits(self, column: str) -> list[str]:
        """Return `train`, `val` or `test` for each row."""
        cells = self.cells(column)
        words = cells.words().to_pylist()
        names = {word: split_name(word, of=cells.of) for word in dict.fromkeys(words)}
        return [names[word] for word in words]


class Table:
    """A table file of either format, read as a stream of rows."""

    def __init__(self, path: Path) -> None:
        self.path, self._csv = path, path.suffix.lower() == ".csv"
        self._kept, self._quotes_checked = Kept({}), False
        if path.is_dir():
            raise InputError(f"{path.name} is not a table, but a folder: write the parts in it into one Parquet file")
        if not path.is_file() or path.suffix.lower() not in {".csv", ".parquet"}:
            remedy = REMEDIES.get(path.suffix.lower(), "give a .csv or .parquet file")
            raise InputError(f"{path.name} is not a table: {remedy}")
        _check_readable(path, text=self._csv)
        files.refuse_pointer(path)
        if self._csv and not csv_quotes.has_sound_header(path):
            self._check_quotes()
        with self._reading():
            self._schema = self._open_csv(None).schema if self._csv else _without_views(parquet.read_schema(path))
            self._names = self._schema.names  # decoding may fail

    def require(self, columns: Iterable[str]) -> None:
        """Raise `InputError` for a column that the table lacks or has more than once."""
        some = [repr(name) if name.strip() != name else " ".join(name.split()) for name in self._names[:MOST_NAMED]]
        known = ", ".join(some) + (f", ... ({len(self._names):,} in all)" if len(self._names) > MOST_NAMED else "")
        counts = Counter(self._names)
        for column in columns:
            if counts[column] != 1:
                what = "no column" if not counts[column] else "more than one column"
                blank = [name for name in self._names if name != column and name.strip() == column.strip()]
                remedy = f"; take the blanks out of the header's {blank[0]!r}, or name it so" if blank else ""
                raise InputError(f"{self.path.name} has {what} {column!r}: it has {known}{remedy}")

    def check_type(self, column: str, check: Callable[[Any, str], None]) -> None:
        """Apply `check` to a Parquet column's type, to raise `InputError`. CSV cells are all text at first."""
        if not self._csv:
            check(self._schema.field(column).type, f"{self.path.name}: column {column!r}")

    def rows(self, columns: Iterable[str], skip: int = 0) -> Iterator[Rows]:
        """Yield all rows of the given columns but the first `skip`, in order."""
        chosen = list(dict.fromkeys(columns))
        first = 0
        if self._csv:
            self._check_quotes()
        with self._reading():
            for batch in self._open_csv(chosen) if self._csv else self._open_parquet(chosen):
                batch.validate(full=not self._csv)  # Arrow does not check that text in a Parquet file is UTF-8
                done = min(max(skip - first, 0), batch.num_rows)
                if done < batch.num_rows:
                    yield Rows(batch.slice(done), first + done, self.path.name)
                first += batch.num_rows

    def in_parts(
        self,
        types: Mapping[str, Any],
        work: Callable[[Rows, bool], T | None],
        then: Mapping[str, Any] | None = None,
    ) -> Iterator[tuple[int, T]]:
        """Yield the first row and `work(rows, plain)` for parts of the file, in order, computed in threads.

        types: of a CSV file, Arrow's type of each wanted column. Where it cannot be had, or `work` returns None,
        `plain` is false and all columns are text. A Parquet file has its own types, and `plain` is false.
        then: the types that the next call will be given, if it is known to come: what was parsed for them is kept, up
        to `csv_parts.KEPT_BYTES`, and not parsed again.
        Raises `Unusual` if there is no result even then.
        """
        first = 0
        with (
            self._reading(),
            closing(self._csv_parts(types, work, then) if self._csv else self._parquet_parts(types, work)) as found,
        ):
            for count, result in found:
                yield first, result
                first += count

    def _csv_parts(
        self, types: Mapping[str, Any], work: Callable[[Rows, bool], T | None], then: Mapping[str, Any] | None
    ) -> Generator[tuple[int, T], None, None]:
        known = self._kept
        self._kept = kept = Kept(then or {})

        def computed(part: Part | Parsed) -> tuple[int, T]:
            if isinstance(part, Parsed):
                if (result := work(self._rows(part.batch), part.plain)) is not None:
                    return part.batch.num_rows, result
                part = part.part(self.path)
            wanted = types if kept.full else {**types, **kept.types}
            for plain, kinds in ((True, wanted), (False, dict.fromkeys(wanted, pa.string()))):
                batch = csv_parts.parse(part, self._names, kinds)
                if batch is not None and (result := work(self._rows(batch), plain)) is not None:
                    if wanted is not types:
                        kept.add(Parsed(batch, plain, part.begin, part.end))
                    return batch.num_rows, result
            raise Unusual

        again = known.parsed() if known.types == types else deque()
        rest = csv_parts.parts(self.path, again[-1].end if again else 0)
        found: Iterator[Part | Parsed] = chain((again.popleft() for _ in range(len(again))), rest)
        workers = threads(per_core=2)  # Arrow hands each part to another thread of its own and waits
        return in_order(found, computed, workers=workers, ahead=workers)

    def _check_quotes(self) -> None:
        if not self._quotes_checked:
            csv_quotes.check(self.path)
            self._quotes_checked = True

    def _rows(self, batch: pa.RecordBatch) -> Rows:
        return Rows(batch, 0, self.path.name)

    def _parquet_parts(
        self, columns: Iterable[str], work: Callable[[Rows, bool], T | None]
    ) -> Generator[tuple[int, T], None, None]:
        def computed(batch: pa.RecordBatch) -> tuple[int, T]:
            batch.validate(full=True)
            if (result := work(self._rows(batch), False)) is None:
                raise Unusual
            return batch.num_rows, result

        chosen = list(columns)
        rows, width = PARQUET_ROWS, 8 * max(len(chosen), 1)
        if all(pa.types.is_primitive(self._schema.field(name).type) for name in chosen):
            rows = max(rows, min(PARQUET_BYTES // width, MOST_ROWS))
        parts = max(1, READ_AHEAD // (rows * width))
        workers = threads(most=min(parts, CONVERTING))
        return in_order(self._open_parquet(chosen, rows), computed, workers=workers, ahead=0)

    def _open_csv(self, columns: list[str] | None) -> Any:
        alone = columns is not None and len(self._names) == 1
        return csv.open_csv(
            # In a single column, an empty line is a missing value, unless no row follows.
            pa.OSFile(str(self.path)).get_stream(*csv_parts.within_blank_lines(self.path)) if alone else self.path,
            # A single thread: only then do errors name the malformed row.
            read_options=csv.ReadOptions(use_threads=False, block_size=CSV_BLOCK_BYTES),
            convert_options=csv.ConvertOptions(
                include_columns=columns,
                column_types=dict.fromkeys(columns or (), pa.string()),
                strings_can_be_null=True,
                null_values=[""],
            ),
            # Otherwise a newline inside quotes is accepted or refused depending on where a block ends.
            parse_options=csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=not alone),
        )

    def _open_parquet(self, columns: list[str], rows: int = PARQUET_ROWS) -> Iterator[pa.RecordBatch]:
        # Without the first two options, a whole row group, possibly the whole file, is read at once.
        file = parquet.ParquetFile(self.path, pre_buffer=False, buffer_size=2**20, page_checksum_verification=True)
        for batch in file.iter_batches(rows, columns=columns):
            schema = _without_views(batch.schema)
            yield batch if schema == batch.schema else batch.cast(schema)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError) as error:
            raise self._unreadable(error) from None
        except MemoryError:
            raise self._unreadable(ValueError("it needs more memory than there is")) from None
        except OSError as error:
            if error.errno is None:  # from Arrow for a truncated file, not from the system for a failed disk
                raise self._unreadable(error) from None
            raise

    def _unreadable(self, error: Exception) -> InputError:
        kind, reason = "CSV" if self._csv else "Parquet", " ".join(str(error).split())
        not_utf8 = isinstance(error, UnicodeDecodeError) or "invalid UTF8" in reason
        remedy = "save it as UTF-8" if not_utf8 and self._csv else "fix it or get a new copy"
        if "straddling" in reason:
            reason = f"a row is longer than {CSV_BLOCK_BYTES:,} bytes, or a quote is unclosed"
            remedy = "fix it, or save a table of so many columns as Parquet"
        return InputError(f"{self.path.name} cannot be read as {kind}: {reason}; {remedy}")


def _without_views(schema: pa.Schema) -> pa.Schema:
    """Return a schema with plain text for each column of `string_view`, for which Arrow lacks most functions."""
    views = [number for number, field in enumerate(schema) if pa.types.is_string_view(field.type)]
    for number in views:
        schema = schema.set(number, schema.field(number).with_type(pa.large_string()))
    return schema


def _check_readable(path: Path, *, text: bool) -> None:
    """Raise `InputError` for a file that this user may not read, or that is no text: Arrow's errors do not say it."""
    try:
        with files.opened(path) as file:
            begun = file.read(8)
    except PermissionError:
        raise InputError(f"{path.name} cannot be read by this user: allow it with `chmod u+r`") from None
    if text and (packed := [name for start, name in COMPRESSED.items() if begun.startswith(start)]):
        raise InputError(f"{path.name} is not text: it is compressed with {packed[0]}; {UNPACK}")
    if text and begun.startswith(PARQUET):
        raise InputError(f"{path.name} is not text: it is a Parquet file; call it .parquet")
    if text and begun[:2] in UTF16:
        raise InputError(f"{path.name} is not UTF-8: it begins like UTF-16; save it as UTF-8")
