"""Answers as a Parquet table and as NumPy arrays: what is read back is what the model said, to the bit."""

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from tapeline.prediction import columns
from tapeline.prediction.columns import Arrays, Table
from tapeline.prediction.inputs import Piece
from tapeline.prediction.partial_output import ANSWERS as ANSWERS_FILE
from tapeline.prediction.partial_output import PartialOutput
from tapeline.runtime.errors import InputError

BITS = np.random.default_rng(0).integers(0, 2**32, (7, 2, 3), np.uint32).view(np.float32)
ANSWERS = {
    "class": np.arange(7) - 3,
    "class_name": np.array(["a", "ö", ""])[[0, 1, 2, 0, 1, 2, 0]],
    "half": np.arange(7, dtype=np.float16) / 3,
    "p": BITS,
    "yes": np.arange(7) % 2 == 0,
}


def split(writer, answers, *sizes):
    """Write the answers in batches, of which the second is of two files."""
    start = 0
    for number, size in enumerate(sizes):
        inner = (size,) if number != 1 else (1, size - 1)
        given = [Piece(Path(f"{number}.npy"), start, {"x": np.zeros(one)}) for one in inner]
        writer.write(writer.render(given, {name: one[start : start + size] for name, one in answers.items()}))
        start += size
    writer.close()


def test_a_parquet_table(monkeypatch):
    monkeypatch.setattr(columns, "GROUP_ROWS", 4)
    file = io.BytesIO()
    split(Table(file), ANSWERS, 2, 3, 2)
    table = parquet.read_table(file)
    assert table.column_names == ["file", "row", *ANSWERS]
    assert table["file"].to_pylist() == ["0.npy"] * 2 + ["1.npy"] * 3 + ["2.npy"] * 2
    assert table["row"].to_pylist() == [0, 1, 2, 2, 3, 5, 6]
    for name in ("class", "class_name", "half", "yes"):
        assert table[name].to_pylist() == ANSWERS[name].tolist(), name
    found = np.array(table["p"].to_pylist(), np.float32)
    assert np.array_equal(found.view(np.uint32), BITS.view(np.uint32)) and table["half"].type == pa.float16()
    assert parquet.ParquetFile(file).num_row_groups == 2


@pytest.mark.parametrize("name", list(ANSWERS))
def test_one_output_as_npy(tmp_path, name):
    with (tmp_path / "a.npy").open("wb") as file:
        split(Arrays(file, None), {name: ANSWERS[name]}, 4, 3)
    np.save(tmp_path / "b.npy", ANSWERS[name])
    assert (tmp_path / "a.npy").read_bytes() == (tmp_path / "b.npy").read_bytes()


def test_all_outputs_as_npz(tmp_path):
    for name, sizes in (("a", (4, 3)), ("b", (1, 5, 1))):
        with PartialOutput.opened(tmp_path / f"{name}.npz", {}, fresh=False, note=print) as partial:
            split(Arrays(partial.file(ANSWERS_FILE), partial.file), ANSWERS, *sizes)
            partial.finish()
    with np.load(tmp_path / "a.npz", allow_pickle=False) as found:
        assert list(found) == list(ANSWERS)
        for name, values in ANSWERS.items():
            assert found[name].dtype == values.dtype and found[name].tobytes() == values.tobytes(), name
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_the_members_of_an_archive_that_is_not_finished_are_closed(tmp_path):
    with pytest.raises(InputError), PartialOutput.opened(tmp_path / "a.npz", {}, fresh=False, note=print) as partial:
        split(Arrays(partial.file(ANSWERS_FILE), partial.file), ANSWERS, 4)
        Arrays(partial.file(ANSWERS_FILE), partial.file).write({"y": np.zeros(3)})
        assert len(opened(tmp_path)) > 1
        raise InputError("refused")
    assert opened(tmp_path) == []


def opened(folder):
    """Return the files below a folder that this process has open."""
    found = [str(one.readlink()) for one in Path("/proc/self/fd").iterdir() if one.is_symlink()]
    return [one for one in found if one.startswith(str(folder))]


def test_the_header_of_an_npy_has_room_for_any_number(tmp_path):
    column = columns._Column(io.BytesIO(), "y", np.zeros((1, 2)))
    lengths = set()
    for column._count in (0, 9, 10**9, 10**18):
        lengths.add(len(column._header()))
    assert len(lengths) == 1


@pytest.mark.parametrize(
    ("answers", "sizes", "said"),
    [
        (
            {"y": np.array(["a", b"b"], object)},
            (2,),
            "the output y is text of varying length, which an array cannot hold",
        ),
        ({"y": np.zeros(2)}, (1, 1), "the output y has shape (1) for some examples and () for others"),
    ],
)
def test_what_an_array_does_not_hold(tmp_path, answers, sizes, said):
    writer = Arrays(io.BytesIO(), None)
    with pytest.raises(InputError) as raised:
        split(writer, answers, *sizes)
        piece = Piece(Path("a"), 0, {"x": np.zeros(1)})
        writer.write(writer.render([piece], {"y": np.zeros((1, 1))}))
    assert said in str(raised.value)


def test_what_parquet_does_not_hold():
    piece = Piece(Path("a"), 0, {"x": np.zeros(1)})
    table = Table(io.BytesIO())
    with pytest.raises(InputError, match="the output y is complex, which Parquet does not support"):
        table.render([piece], {"y": np.array([1j])})
    table.write(table.render([piece], {"y": np.ones(1)}))
    with pytest.raises(InputError, match="vary in type or number of axes"):
        table.write(table.render([piece], {"y": np.ones((1, 1))}))
