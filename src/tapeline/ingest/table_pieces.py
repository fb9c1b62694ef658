"""The rows of a table, decoded in threads, in order."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from numpy.typing import NDArray

from tapeline.config.ingest import TableSource
from tapeline.ingest.bad_cells import Collected
from tapeline.ingest.cells import Doubts
from tapeline.ingest.csv_parts import Unusual
from tapeline.ingest.table_features import Decoder
from tapeline.ingest.table_file import Rows, Table
from tapeline.runtime.errors import InputError


@dataclass(frozen=True)
class Piece:
    """Some rows, decoded."""

    count: int
    values: dict[str, NDArray[Any]]
    keys: list[str] | None
    splits: list[str] | None
    doubts: dict[str, Doubts]


def types_of(decoder: Decoder, settings: TableSource) -> dict[str, Any]:
    """Return the type to read each needed column of a CSV file as."""
    words = [column for column in (settings.split, settings.key) if column is not None]
    return decoder.types | dict.fromkeys(words, pa.string())


def _piece(rows: Rows, decoder: Decoder, settings: TableSource, bad: Collected) -> Piece:
    """Decode some rows. Adds bad cells to `bad`; then the piece is not complete."""
    doubts: dict[str, Doubts] = {}
    values = decoder.values(rows, bad, doubts)
    keys = splits = None
    if settings.key is not None:
        with bad.column():
            keys = rows.cells(settings.key).words().to_pylist()
    if settings.split is not None and not bad.count:
        splits = rows.splits(settings.split)
    return Piece(rows.batch.num_rows, values, keys, splits, doubts)


def pieces(table: Table, decoder: Decoder, settings: TableSource) -> Iterator[tuple[int, Piece]]:
    """Yield all rows, decoded, and the number of the first; no piece is empty.

    Raises `InputError` for bad cells after the last row.
    """
    types = types_of(decoder, settings)

    def work(rows: Rows, plain: bool) -> Piece | None:
        bad = Collected()
        piece = _piece(rows, decoder, settings, bad)
        # Whether a large number was written as a whole number, which float32 must not round, only its text tells.
        return None if bad.count or (plain and decoder.has_large(piece.values)) else piece

    done, doubts = 0, dict[str, Doubts]()
    try:
        for first, piece in table.in_parts(types, work):
            if piece.count:
                yield first, piece
            _add(doubts, piece, first)
            done = first + piece.count
    except (Unusual, InputError):  # said again, of the first row that is at fault
        pass
    else:
        return _refuse(doubts)
    bad = Collected()
    for rows in table.rows(types, skip=done):
        piece = _piece(rows, decoder, settings, bad)
        if bad.full:
            break
        if piece.count and not bad.count:  # else the other bad cells are collected
            yield rows.first, piece
        _add(doubts, piece, 0)
    bad.refuse()
    return _refuse(doubts)


def _add(doubts: dict[str, Doubts], piece: Piece, first: int) -> None:
    """Add a piece's doubts. first: what its rows are counted from."""
    for column, found in piece.doubts.items():
        doubts.setdefault(column, Doubts()).add(found, first)


def _refuse(doubts: dict[str, Doubts]) -> None:
    """Raise `InputError` for whole numbers that float32 rounds in columns without fractions."""
    bad = Collected()
    for of_column in doubts.values():
        with bad.column():
            of_column.refuse()
    bad.refuse()
