"""Answers as columns: a Parquet table, or NumPy arrays in the order of the examples.

What is not written yet stays small, however many answers there are.
"""

import io
import shutil
import struct
import zipfile
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import parquet

from tapeline.prediction.inputs import Piece
from tapeline.prediction.lines import file_names, row_numbers, synced_size, texts, truncate_to
from tapeline.prediction.outputs import Answers
from tapeline.prediction.signature import shape_text
from tapeline.runtime.errors import InputError

GROUP_ROWS, GROUP_BYTES = 2**16, 2**26
"""A row group of a Parquet file is written once it has so many rows or bytes."""
EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time of every member of an archive, so that the same answers are the same bytes."""
PART_HEADER = struct.Struct("<QQ")
"""Before each part of the spool: its size when it was written, by which groups are formed, and its bytes here."""


class Table:
    """Writes to a Parquet file: the columns `file`, `row`, and one per output, with lists for axes but the first.

    A Parquet file that has no end cannot be continued: what it is made of is kept beside it, and written again.
    """

    def __init__(self, file: IO[bytes], spool: IO[bytes] | None = None, mark: Mapping[str, Any] | None = None) -> None:
        """Write to a file from its beginning. spool: what is kept. mark: where that was."""
        self._file, self._spool, self._waiting = file, spool, list[tuple[pa.Table, int]]()
        self._writer: Any = None
        self._schema: pa.Schema | None = None
        file.truncate(0)
        if mark is not None and spool is not None:
            truncate_to(spool, mark["bytes"])
            spool.seek(0)
            self._replay(spool)

    def render(self, pieces: Sequence[Piece], answers: Mapping[str, NDArray[Any]]) -> pa.Table:
        """Return a table of the answers. For any thread, in any order."""
        found = {"file": file_names(pieces, str).cast(pa.string()), "row": pa.array(row_numbers(pieces))}
        return pa.table({**found, **{name: _nested(name, values) for name, values in answers.items()}})

    def write(self, rendered: pa.Table) -> None:
        """Write what `render` returned, sooner or later. Raises `InputError` for other types than those before."""
        if self._schema is not None and rendered.schema != self._schema:
            raise InputError("the outputs of this model vary in type or number of axes: use --out with a .jsonl file")
        if self._spool is not None:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, rendered.schema) as stream:
                stream.write_table(rendered)
            content = sink.getvalue()
            self._spool.write(PART_HEADER.pack(rendered.nbytes, content.size))
            self._spool.write(content)
        self._add(rendered, rendered.nbytes)

    def _add(self, rendered: pa.Table, size: int) -> None:
        self._schema = rendered.schema
        self._waiting.append((rendered, size))
        if sum(len(one) for one, _ in self._waiting) >= GROUP_ROWS or sum(n for _, n in self._waiting) >= GROUP_BYTES:
            self._flush()

    def _replay(self, spool: IO[bytes]) -> None:
        """Write what was kept, in the same groups. Raises `ValueError` for anything else."""
        while head := spool.read(PART_HEADER.size):
            size, length = PART_HEADER.unpack(head)
            with pa.ipc.open_stream(spool.read(length)) as stream:
                self._add(stream.read_all(), size)

    def mark(self) -> dict[str, Any]:
        """Return where what is kept is, for a later start."""
        assert self._spool is not None, "a mark needs what it is a mark of"
        return {"bytes": synced_size(self._spool)}

    def close(self) -> None:
        """Write what waits, and the end of the file."""
        self._flush()
        if self._writer is not None:
            self._writer.close()
        self._file.flush()

    def _flush(self) -> None:
        if not self._waiting:
            return
        group = pa.concat_tables([one for one, _ in self._waiting])
        if self._writer is None:
            self._writer = parquet.ParquetWriter(self._file, group.schema)
        self._writer.write_table(group, row_group_size=max(1, len(group)))
        self._waiting = []


class Arrays:
    """Writes to an `.npy` file of one output, or to an `.npz` archive of all of them."""

    def __init__(
        self, file: IO[bytes], member: Callable[[str], IO[bytes]] | None, mark: Mapping[str, Any] | None = None
    ) -> None:
        """Write to a file. member: opens an archive's member by name; None for one array. mark: where they were."""
        self._file, self._member = file, member
        self._columns: dict[str, _Column] = {}
        for name, column in (mark or {}).items():
            self._columns[name] = _Column.resumed(self._opened(len(self._columns)), name, column)

    def _opened(self, number: int) -> IO[bytes]:
        return self._file if self._member is None else self._member(f"{number}.npy")

    def render(self, pieces: Sequence[Piece], answers: Mapping[str, NDArray[Any]]) -> Answers:
        """Return the answers. For any thread, in any order. Raises `InputError` for what an array does not hold."""
        if text := [name for name, values in answers.items() if values.dtype == object]:
            raise InputError(
                f"the output {', '.join(text)} is text of varying length, which an array cannot hold: use --out with a "
                ".parquet, .csv or .jsonl file, or choose other --outputs"
            )
        return dict(answers)

    def write(self, rendered: Answers) -> None:
        """Write what `render` returned. Raises `InputError` for other shapes or dtypes than those before."""
        for name, values in rendered.items():
            if name not in self._columns:
                self._columns[name] = _Column(self._opened(len(self._columns)), name, values)
            self._columns[name].write(values)

    def mark(self) -> dict[str, Any]:
        """Return where the columns are, for a later start."""
        return {name: column.mark() for name, column in self._columns.items()}

    def close(self) -> None:
        """Write the numbers of examples, and the archive."""
        for column in self._columns.values():
            column.finish()
        if self._member is not None:
            self._file.truncate(0)
            with zipfile.ZipFile(self._file, "w") as archive:
                for name, column in self._columns.items():
                    with archive.open(zipfile.ZipInfo(f"{name}.npy", EPOCH), "w", force_zip64=True) as member:
                        shutil.copyfileobj(column.file, member, 2**20)
                    column.file.close()
        self._file.flush()


class _Column:
    """An `.npy` file that grows."""

    def __init__(self, file: IO[bytes], name: str, like: NDArray[Any]) -> None:
        self.file, self._name, self._dtype, self._shape = file, name, like.dtype, like.shape[1:]
        self._count = 0
        file.truncate(0)
        file.write(self._header())

    @classmethod
    def resumed(cls, file: IO[bytes], name: str, mark: Mapping[str, Any]) -> "_Column":
        """Return the column that `mark` described. Raises `ValueError` for a file that is shorter."""
        like = np.empty((0, *mark["shape"]), np.dtype(mark["dtype"]))
        found = cls.__new__(cls)
        found.file, found._name, found._dtype, found._shape = file, name, like.dtype, like.shape[1:]
        found._count = mark["count"]
        truncate_to(file, mark["bytes"])
        return found

    def write(self, values: NDArray[Any]) -> None:
        if (values.dtype, values.shape[1:]) != (self._dtype, self._shape):
            raise InputError(
                f"the output {self._name} has shape {shape_text(values.shape[1:])} for some examples and "
                f"{shape_text(self._shape)} for others, which an array cannot hold: use --out with a .jsonl or "
                ".parquet file"
            )
        self._count += len(values)
        self.file.write(np.ascontiguousarray(values).data.cast("B") if values.size else b"")

    def mark(self) -> dict[str, Any]:
        described = {"dtype": self._dtype.str, "shape": list(self._shape), "count": self._count}
        return {**described, "bytes": synced_size(self.file)}

    def finish(self) -> None:
        """Put the number of examples into the header, which has room for it, and go to the start."""
        self.file.seek(0)
        self.file.write(self._header())
        self.file.seek(0)

    def _header(self) -> bytes:
        written = io.BytesIO()
        described = {"descr": np.lib.format.dtype_to_descr(self._dtype), "fortran_order": False}
        np.lib.format.write_array_header_1_0(written, {**described, "shape": (self._count, *self._shape)})
        return written.getvalue()


def _nested(name: str, values: NDArray[Any]) -> pa.Array:
    """Return one value or list per example. Raises `InputError` for a dtype that Parquet lacks."""
    if values.dtype.kind == "c":
        raise InputError(
            f"the output {name} is complex, which Parquet does not support: use --out with a .csv or .npz file"
        )
    text = values.dtype.kind in "OSU"
    found = pa.array(texts(values), pa.string()) if text else pa.array(np.ravel(values))
    for axis in range(values.ndim - 1, 0, -1):
        count = int(np.prod(values.shape[:axis]))
        offsets = np.arange(count + 1, dtype=np.int64) * values.shape[axis]
        found = pa.LargeListArray.from_arrays(pa.array(offsets), found)
    return found
