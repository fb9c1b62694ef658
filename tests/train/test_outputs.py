"""What training writes at its end, also where a figure is not finite."""

import csv
import json

import datasets
import pytest
import recipes
from trainings import Crash, Lengths, Run, crash_after

ENDLESS = (
    "    def predict(self",
    "    def evaluate(self, data):\n        return {'endless': -float('inf')}\n\n    def predict(self",
)


@pytest.fixture
def run(tmp_path, tf):
    data = datasets.points(tmp_path / "points").folder
    recipe = recipes.write(tmp_path, recipes.LINE, ENDLESS)

    def make(name):
        return Run(tmp_path / name, recipe, data, epochs=3, batch_size=8, checkpoint={"every_steps": 1})

    return make


def test_what_is_not_finite_is_null_and_the_training_is_done(run):
    """It ended in a traceback after the last step, and so did each call after it."""
    done = run("whole")()
    metrics = json.loads((done.out / "metrics.json").read_text())
    assert metrics["val"] == {"loss": metrics["val"]["loss"], "endless": None}
    rows = list(csv.DictReader((done.out / "history.csv").read_text().splitlines()))
    assert [row["val_endless"] for row in rows] == ["-inf"] * 3
    assert (done.out / "run.json").is_file()


@pytest.mark.slow
def test_a_checkpoint_has_it_as_it_is(run):
    whole, cut = run("whole")(), run("cut")
    with pytest.raises(Crash):
        cut(hooks=[crash_after(8)], pace=Lengths(1))
    assert cut().outs() == whole.outs()


def test_no_old_record_stands_beside_the_weights_of_a_training_that_was_stopped(run):
    stopped = run("whole")()
    (stopped.out / "metrics.json").unlink()
    (stopped.out / "metrics.json").mkdir()
    with pytest.raises(IsADirectoryError):
        stopped(fresh=True)
    assert not (stopped.out / "run.json").exists()
