"""A CSV file in parts of whole rows, each parsed in a thread: as Arrow's own reader of a stream, which has one, does.

    for rows in in_order(parts(path), parse):
        ...

Only for files without quotes below the header: there, every line break ends a row. Whatever is unusual raises
`Unusual`, and the file is to be read from its start in one thread, which finds the row that is at fault.
"""

import os
import threading
from codecs import BOM_UTF8
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv

from tapeline.ingest import csv_quotes
from tapeline.runtime import files

BLOCK_BYTES = 2**20
"""The approximate size of a part, and the largest size of a row."""
KEPT_BYTES = 2**28
"""The approximate size of the Arrow arrays that a first pass over a file keeps for the second."""


class Unusual(Exception):
    """Parts cannot be parsed one by one, or there is a mistake to be named."""


@dataclass(frozen=True)
class Part:
    """Some whole rows; the first part, which begins at byte 0, has the header, too."""

    content: bytes
    begin: int
    """Bytes of the file before this part."""

    @property
    def end(self) -> int:
        """Bytes of the file up to the end of this part."""
        return self.begin + len(self.content)


@dataclass(frozen=True)
class Parsed:
    """What `parse` made of a part, kept for another pass over the file."""

    batch: pa.RecordBatch
    plain: bool
    """Whether each column has its own type; else all are text."""
    begin: int
    end: int

    def part(self, path: Path) -> Part:
        """Return the part itself, read again."""
        with files.opened(path) as file:
            file.seek(self.begin)
            return Part(file.read(self.end - self.begin), self.begin)


class Kept:
    """What one pass over a file parsed for the next, which needs columns of `types`, from any thread."""

    def __init__(self, types: Mapping[str, Any]) -> None:
        self.types = types
        self._parsed: list[Parsed] = []
        self._bytes = 0
        self._lock = threading.Lock()

    @property
    def full(self) -> bool:
        """Whether there is no room for more, or nothing to be kept."""
        return not self.types or self._bytes >= KEPT_BYTES

    def add(self, parsed: Parsed) -> None:
        """Keep a part, in whatever order parts are finished."""
        with self._lock:
            self._parsed.append(parsed)
            self._bytes += parsed.batch.nbytes

    def parsed(self) -> deque[Parsed]:
        """Return the parts from the file's start up to the first that was not kept."""
        found: deque[Parsed] = deque()
        for parsed in sorted(self._parsed, key=lambda one: one.begin):
            if parsed.begin != (found[-1].end if found else 0):
                break
            found.append(parsed)
        return found


def parts(path: Path, begin: int = 0) -> Iterator[Part]:
    """Yield a file's parts from byte `begin` on, where one must begin.

    Raises `Unusual` for a quote below the header, for a block without a line break, and for a part that begins with a
    byte order mark, which Arrow takes out wherever it begins.
    """
    rest = b""
    with files.opened(path) as file:
        file.seek(begin)
        while block := file.read(BLOCK_BYTES):
            cut = block.rfind(b"\n") + 1
            if not cut:
                raise Unusual
            content = b"".join((rest, memoryview(block)[:cut]))  # copied once
            yield (part := _checked(Part(content, begin)))
            begin, rest = part.end, block[cut:]
    if rest:
        yield _checked(Part(rest, begin))


def within_blank_lines(path: Path) -> tuple[int, int]:
    """Return where a file's content begins and how many bytes it has: all but empty lines above it and below it.

    The line break of its last line is a part of it.
    """
    with files.opened(path) as file:
        begin = len(BOM_UTF8) if file.read(len(BOM_UTF8)) == BOM_UTF8 else 0
        file.seek(begin)
        while (block := file.read(BLOCK_BYTES)) and not block.strip(b"\r\n"):
            begin += len(block)
        begin += len(block) - len(block.lstrip(b"\r\n"))
        end = file.seek(0, os.SEEK_END)
        while end > begin:
            start = max(begin, end - BLOCK_BYTES)
            file.seek(start)
            if block := file.read(end - start).rstrip(b"\r\n"):
                file.seek(start + len(block))
                behind = file.read(2)
                return begin, start + len(block) + (2 if behind == b"\r\n" else len(behind[:1])) - begin
            end = start
    return begin, 0


def parse(part: Part, names: Sequence[str], types: Mapping[str, Any]) -> pa.RecordBatch | None:
    """Return the columns of `types` as these types, or None if Arrow refuses.

    names: of all columns. If there is one, an empty line is a missing value, also above the header and at the end.
    """
    try:
        table = csv.read_csv(
            pa.BufferReader(part.content),
            read_options=csv.ReadOptions(
                use_threads=False, block_size=2 * len(part.content), column_names=names if part.begin else None
            ),
            convert_options=csv.ConvertOptions(
                include_columns=list(types), column_types=dict(types), strings_can_be_null=True, null_values=[""]
            ),
            parse_options=csv.ParseOptions(ignore_empty_lines=len(names) > 1),
        )
        batches = table.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], table.schema)]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowKeyError, UnicodeDecodeError):
        return None
    return batches[0]


def _checked(part: Part) -> Part:
    if part.begin and part.content.startswith(BOM_UTF8):
        raise Unusual
    header = 0 if part.begin else part.content.find(b"\n") + 1
    if part.content.find(b'"', header) >= 0 or not csv_quotes.is_sound(part.content[:header]):
        raise Unusual
    return part
