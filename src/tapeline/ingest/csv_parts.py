"""A CSV file in parts of whole rows, each parsed in a thread: as Arrow's own reader of a stream, which has one, does.

    for rows in in_order(parts(path), parse):
        ...

Only for files without quotes below the header: there, every line break ends a row. Whatever is unusual raises
`Unusual`, and the file is to be read from its start in one thread, which finds the row that is at fault.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv

from tapeline.runtime import files

BLOCK_BYTES = 2**20
"""Of a part, about; and what no row may be longer than."""


class Unusual(Exception):
    """Parts cannot be parsed one by one, or there is a mistake to be named."""


@dataclass(frozen=True)
class Part:
    """Some whole rows; the first part has the header, too."""

    content: bytes
    first: bool


def parts(path: Path) -> Iterator[Part]:
    """Yield a file's parts. Raises `Unusual` for a quote below the header and for a block without a line break."""
    first, rest = True, b""
    with files.opened(path) as file:
        while block := file.read(BLOCK_BYTES):
            cut = block.rfind(b"\n") + 1
            if not cut:
                raise Unusual
            yield _checked(rest + block[:cut], first=first)
            first, rest = False, block[cut:]
    if rest:
        yield _checked(rest, first=first)


def parse(part: Part, names: Sequence[str], types: Mapping[str, Any]) -> pa.RecordBatch | None:
    """Return the columns of `types` as these types, or None if Arrow refuses."""
    try:
        table = csv.read_csv(
            pa.BufferReader(part.content),
            read_options=csv.ReadOptions(
                use_threads=False, block_size=2 * len(part.content), column_names=None if part.first else names
            ),
            convert_options=csv.ConvertOptions(
                include_columns=list(types), column_types=dict(types), strings_can_be_null=True, null_values=[""]
            ),
        )
        batches = table.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], table.schema)]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowKeyError, UnicodeDecodeError):
        return None
    return batches[0]


def _checked(content: bytes, *, first: bool) -> Part:
    header = content.find(b"\n") + 1 if first else 0
    if b'"' in content[header:] or content[:header].count(b'"') % 2:
        raise Unusual
    return Part(content, first)
