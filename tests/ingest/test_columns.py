import io
from pathlib import Path

import numpy as np
import pytest

from tapeline.dataset.columns import Feature
from tapeline.dataset.statistics import blocks
from tapeline.ingest.columns import ColumnWriter


@pytest.mark.parametrize(
    ("shape", "dtype"), [((8, 8, 1), "uint8"), ((), "int64"), ((3,), "float32"), ((2,), "bool"), ((), "float16")]
)
def test_pieces_make_the_bytes_of_numpy_save(tmp_path: Path, shape: tuple[int, ...], dtype: str) -> None:
    values = np.random.default_rng(0).integers(0, 2, (100, *shape)).astype(dtype)
    with ColumnWriter(tmp_path / "a" / "column.npy", Feature(shape, dtype)) as column:
        for start, end in ((0, 1), (1, 1), (1, 60), (60, 100)):
            column.append(values[start:end])
    expected = io.BytesIO()
    np.save(expected, values)
    assert (tmp_path / "a" / "column.npy").read_bytes() == expected.getvalue()


def test_values_that_are_not_contiguous_are_written_in_order(tmp_path: Path) -> None:
    values = np.arange(24, dtype=np.float32).reshape(4, 6).T[::2]
    with ColumnWriter(tmp_path / "x.npy", Feature((4,), "float32")) as column:
        column.append(values)
    assert np.array_equal(np.load(tmp_path / "x.npy"), values)


def test_blocks_are_flat_in_order_and_of_one_size(tmp_path: Path) -> None:
    values = np.arange(50, dtype=np.int64).reshape(10, 5)
    np.save(tmp_path / "x.npy", values)
    found = list(blocks(tmp_path / "x.npy", 16))
    assert [len(block) for block in found] == [16, 16, 16, 2]
    assert np.array_equal(np.concatenate(found), values.ravel())
