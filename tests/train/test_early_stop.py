"""Early stopping is said, with the epoch whose weights are kept, and the closing figures are of that one epoch."""

import csv
import io
import json

import datasets
import pytest
import recipes
from trainings import Run

TAKEN = ("        self.optimizer", "        self.taken = tf.Variable(0.0)\n        self.optimizer")
COUNT = (
    "    def train_step(self, batch, context):\n"
    "        self.taken.assign_add(1.0)\n"
    "        return super().train_step(batch, context)\n\n"
)
WORSE = COUNT + "    def evaluate(self, data):\n        return {'worse': float(self.taken)}\n\n    def predict(self"


@pytest.fixture
def run(tmp_path, tf):
    data = datasets.points(tmp_path / "points").folder
    recipe = recipes.write(tmp_path, recipes.LINE, ("    def predict(self", WORSE), TAKEN)

    def call(**best):
        best = {"metric": "worse", "mode": "min", **best}
        return Run(tmp_path / "run", recipe, data, epochs=9, batch_size=8, best=best)()

    return call


def figures(run):
    rows = list(csv.DictReader(io.StringIO((run.out / "history.csv").read_text())))
    return rows, json.loads((run.out / "metrics.json").read_text())


def test_it_is_said_and_all_figures_are_of_the_kept_epoch(run):
    stopped = run(patience=3)
    rows, metrics = figures(stopped)
    assert len(rows) == 4
    assert stopped.notes[-1] == (
        "stopped early after epoch 4: worse has not improved in 3 validations; kept the weights of epoch 1 "
        "(step 5), with worse 5"
    )
    assert metrics["step"] == 5 and metrics["epochs"] == 4
    assert metrics["train"]["loss"] == float(rows[0]["loss"]) != float(rows[3]["loss"])
    assert metrics["val"] == {"loss": float(rows[0]["val_loss"]), "worse": 5.0}


def test_a_metric_that_a_validation_has_no_value_of_is_no_improvement(tmp_path, tf):
    """As a precision where nothing was found: sum and count are 0, from the third epoch on."""
    eval_step = (
        f"{COUNT}    def eval_step(self, batch, context):\n"
        "        few = tf.cast(self.taken <= 10.0, tf.float32)\n"
        "        found = {'precision': (0.5 * few * self.taken, few)}\n"
        "        return {**super().eval_step(batch, context), **found}\n\n    def predict(self"
    )
    recipe = recipes.write(tmp_path, recipes.LINE, ("    def predict(self", eval_step), TAKEN)
    data = datasets.points(tmp_path / "points").folder
    best = {"metric": "val_precision", "mode": "max", "patience": 3}
    stopped = Run(tmp_path / "run", recipe, data, epochs=9, batch_size=8, best=best)()
    rows, metrics = figures(stopped)
    assert [row["val_precision"] for row in rows] == ["2.5", "5.0", "", "", ""]
    assert metrics["step"] == 10 and metrics["epochs"] == 5


def test_a_run_to_its_last_epoch_says_nothing_and_keeps_its_figures(run):
    whole = run(patience=9)
    rows, metrics = figures(whole)
    assert not any("stopped early" in note for note in whole.notes)
    assert metrics["step"] == 5 and metrics["train"]["loss"] == float(rows[-1]["loss"])
