import math
from pathlib import Path

import numpy as np
import pytest

from tapeline.dataset.columns import Feature
from tapeline.ingest.statistics import describe


def save(path: Path, values: np.ndarray) -> Path:
    np.save(path, values)
    return path


def test_a_label_is_described_by_its_counts_empty_classes_too(tmp_path: Path) -> None:
    path = save(tmp_path / "y.npy", np.array([2, 0, 2, 2]))
    assert describe(path, Feature((), "int64", ("a", "b", "c", "d"))) == {"counts": [1, 0, 3, 0]}


@pytest.mark.parametrize("dtype", ["uint8", "float32", "int64", "float64"])
def test_numbers_over_several_blocks_are_what_numpy_says(tmp_path: Path, dtype: str) -> None:
    values = (np.random.default_rng(0).random((1_100_000, 2)) * 250).astype(dtype)
    found = describe(save(tmp_path / "x.npy", values), Feature((2,), dtype))
    assert (found["min"], found["max"]) == (values.min(), values.max())
    assert found["mean"] == pytest.approx(values.astype(float).mean(), rel=1e-12)
    assert found["std"] == pytest.approx(values.astype(float).std(), rel=1e-12)


def test_a_large_offset_costs_no_precision(tmp_path: Path) -> None:
    values = 1e9 + np.array([0.0, 1.0] * 1000)
    assert describe(save(tmp_path / "x.npy", values), Feature((), "float64"))["std"] == 0.5


def test_bools_count_as_numbers(tmp_path: Path) -> None:
    found = describe(save(tmp_path / "x.npy", np.array([True, False, True, True])), Feature((), "bool"))
    assert found == {"min": 0, "max": 1, "mean": 0.75, "std": pytest.approx(math.sqrt(3) / 4)}


def test_zero_has_no_sign(tmp_path: Path) -> None:
    found = describe(save(tmp_path / "x.npy", np.full(9, -0.0)), Feature((), "float64"))
    assert [math.copysign(1, found[name]) for name in ("min", "max", "mean")] == [1, 1, 1]
