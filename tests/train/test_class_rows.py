"""`init_from` across class lists: a row is taken by its class's name, or not at all, and never in silence."""

import datasets
import numpy as np
import pytest
import recipes
from trainings import Run

from tapeline.runtime.errors import InputError

HEAD = ("Dense(3, dtype", 'Dense(len(self.features["label"].classes), dtype')
OLD, NEW = ("bat", "cat", "dog"), ("ant", "bat", "cat", "dog")
KERNEL, BIAS = "model/sequential/dense_1/kernel", "model/sequential/dense_1/bias"


def blobs(folder, names):
    """Write blobs whose brightest rows are those of the name, wherever it is in the list."""
    known = {name: place for place, name in enumerate(NEW)}
    random = np.random.default_rng(0)
    splits = {}
    for split, count in (("train", 200), ("val", 40), ("test", 40)):
        label = random.integers(0, len(names), count)
        image = random.integers(0, 5, (count, 8, 8, 1)).astype(np.uint8)
        for row, kind in enumerate(label):
            place = known.get(names[kind], 0)
            image[row, 2 * place : 2 * place + 2] += 10
        splits[split] = {"image": image, "label": label}
    return datasets.write(folder, splits, {"label": names}).folder


@pytest.fixture(scope="module")
def source(tmp_path_factory, tf):
    folder = tmp_path_factory.mktemp("source")
    recipe = recipes.write(folder, recipes.EVERYTHING, HEAD)
    return Run(folder, recipe, blobs(folder / "blobs", OLD), epochs=15, batch_size=16)()


@pytest.fixture
def started(source, tmp_path):
    """Start from the source's weights on data with other classes, at a rate of almost nothing."""

    def run(names, *edits, known=OLD):
        slow = ("CosineDecayRestarts(0.01, 7)", "CosineDecayRestarts(1e-9, 7)")
        recipe = recipes.write(tmp_path, recipes.EVERYTHING, slow, *edits)
        made = Run(tmp_path, recipe, blobs(tmp_path / "blobs", names), epochs=1, batch_size=16, init_from="x")
        made.weights = source.out / "weights"
        made.weights_classes = None if known is None else {"label": known}
        return made

    return run


def weights(run, tf):
    stored = tf.train.load_checkpoint(str(run.out / "weights" / "weights"))
    return {name: stored.get_tensor(name) for name in (KERNEL, BIAS)}


@pytest.mark.slow
@pytest.mark.parametrize("names", [NEW, OLD[::-1], ("bat", "eel", "dog")])
def test_the_rows_of_the_common_classes_are_taken_by_name(source, started, tf, names):
    run = started(names, HEAD)()
    before, after = weights(source, tf), weights(run, tf)
    for name in set(names) & set(OLD):
        for key in (KERNEL, BIAS):
            np.testing.assert_allclose(after[key][..., names.index(name)], before[key][..., OLD.index(name)], atol=1e-6)
    new = [name for name in names if name not in OLD]
    for name in new:
        assert not np.allclose(after[KERNEL][:, names.index(name)], before[KERNEL][:, OLD.index("cat")], atol=1e-3)
    common = ", ".join(name for name in names if name in OLD)
    rest = f"; as initialized: {', '.join(new)}" if new else ""
    assert run.notes[0].startswith("took 7 of 7 weights from ")
    assert run.notes[1] == f"{BIAS}, {KERNEL}: took the rows of {common} by name{rest}"
    assert '"weights_classes"' in (run.out / "run.json").read_text()


def test_the_same_classes_are_taken_as_ever(started):
    run = started(OLD, HEAD)()
    assert run.notes[0].startswith("took 7 of 7 weights") and len(run.notes) == 1 + sum(
        "epoch drops" in n for n in run.notes
    )
    assert "weights_classes" not in (run.out / "run.json").read_text()


@pytest.mark.slow
def test_no_class_in_common_leaves_the_head_as_initialized(started):
    run = started(("x", "y", "z"), HEAD)()
    assert run.notes[0].startswith("took 5 of 7 weights")
    assert run.notes[1] == (
        f"left as initialized, because they depend on the classes of label, which differ: {BIAS}, {KERNEL}"
    )


def test_a_head_that_does_not_follow_the_classes_is_refused_by_name(started):
    with pytest.raises(
        InputError, match=r"other classes of label \(without eel and with cat\), but no weight of recipe"
    ):
        started(("bat", "eel", "dog"))()
    with pytest.raises(InputError, match=r"other classes of label \(in another order\)"):
        started(OLD[::-1])()


def test_classes_that_nothing_records_are_said(started):
    run = started(OLD[::-1], known=None)()
    assert any("does not record the classes of its weights: rows are taken by position" in note for note in run.notes)
