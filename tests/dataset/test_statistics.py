"""What a recipe is told of its training data: over the last axis, in float64, and of the train split alone."""

import datasets
import numpy as np
import pytest

from tapeline.dataset.statistics import TrainStatistics
from tapeline.ingest.statistics import describe
from tapeline.runtime.errors import InputError

RANDOM = np.random.default_rng(0)
LABELS = np.array([2, 0, 2, 2, 0])


def statistics(folder, values, label=None):
    """Return the statistics of values as the column `x`, beside other values in `val`."""
    columns = {"x": values} if label is None else {"x": values, "label": label}
    others = {name: column[:1] for name, column in columns.items()}
    data = datasets.write(folder / "data", {"train": columns, "val": others}, {"label": "abcd"})
    return TrainStatistics(data)


@pytest.mark.parametrize("dtype", ["uint8", "int64", "float32", "float64"])
@pytest.mark.parametrize("shape", [(), (1,), (3,), (4, 5, 3), (2, 700)])
def test_the_figures_of_the_last_axis_are_what_numpy_says(tmp_path, shape, dtype):
    values = (RANDOM.random((50, *shape)) * 250).astype(dtype)
    found = statistics(tmp_path, values)["x"]
    axes = tuple(range(len(shape))) or 0
    for name in ("mean", "std", "min", "max"):
        figure = getattr(found, name)
        assert figure.dtype == np.float64 and figure.shape == shape[-1:]
        assert figure == pytest.approx(getattr(values.astype(float), name)(axis=axes), rel=1e-12), name


def test_a_channel_over_several_blocks_has_the_bits_of_a_column_of_its_own(tmp_path):
    values = RANDOM.normal(size=(400_000, 3)).astype(np.float32)
    found = statistics(tmp_path, values)["x"]
    for channel in range(3):
        alone = statistics(tmp_path / str(channel), values[:, channel])["x"]
        assert alone.mean == pytest.approx(found.mean[channel], rel=1e-12)
        assert (alone.min, alone.max) == (found.min[channel], found.max[channel])
    again = statistics(tmp_path / "again", values)["x"]
    assert again.mean.tobytes() + again.std.tobytes() == found.mean.tobytes() + found.std.tobytes()


def test_one_channel_has_the_figures_of_the_index(tmp_path):
    found = statistics(tmp_path, RANDOM.integers(0, 17, (900, 8, 8, 1)).astype(np.uint8))["x"]
    index = describe(found.path, found.feature)
    assert {name: getattr(found, name)[0] for name in index} == index


def test_classes_are_counted_by_name_empty_ones_too(tmp_path):
    counts = statistics(tmp_path, np.zeros(5, np.float32), LABELS)["label"].counts
    assert list(counts.items()) == [("a", 2), ("b", 0), ("c", 3), ("d", 0)]


def test_a_column_is_read_once_and_nobody_changes_what_others_see(tmp_path):
    found = statistics(tmp_path, RANDOM.normal(size=(9, 2)).astype(np.float32))
    before = found["x"].mean.copy()
    found["x"].mean[:] = 0
    found["x"].path.unlink()
    assert np.array_equal(found["x"].mean, before)


def test_what_is_not_there_is_said(tmp_path):
    found = statistics(tmp_path, np.zeros(5, np.float32), LABELS)
    for name in ("mean", "std", "min", "max"):
        with pytest.raises(InputError, match=r"^statistics\['label'\]: label is a label, which has only counts$"):
            getattr(found["label"], name)
    with pytest.raises(
        InputError, match=r"^statistics\['x'\].counts: x is not a label; it has mean, std, min and max$"
    ):
        _ = found["x"].counts
    with pytest.raises(InputError, match="^dataset 'data' has no feature 'z': it has label, x$"):
        _ = found["z"]
    drawn = datasets.write(tmp_path / "drawn", {"val": {"x": np.zeros(3)}})
    with pytest.raises(InputError, match="^dataset 'drawn' has no split 'train': it has val$"):
        _ = TrainStatistics(drawn)["x"]
