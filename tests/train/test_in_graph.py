"""Several epochs of training and validation in one call of the compiled loop: the same bytes as one at a time."""

import datasets
import pytest
import recipes
from trainings import Crash, Lengths, Run, crash_after

from tapeline.runtime.errors import InputError
from tapeline.runtime.records import LoopEnded, Validated


@pytest.fixture
def run(tmp_path, tf):
    data = datasets.blobs(tmp_path / "blobs").folder
    recipe = recipes.write(tmp_path, recipes.EVERYTHING)

    def make(label, **changes):
        return Run(tmp_path / label, recipe, data, **{"epochs": 6, "batch_size": 8, **changes})

    return make


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, marks=pytest.mark.slow),
        {"ema": 0.9},
        pytest.param({"validate_every": 2}, marks=pytest.mark.slow),
        pytest.param({"compile": "eager", "epochs": 3}, marks=pytest.mark.slow),
    ],
)
def test_the_bytes_of_the_ordinary_loop(run, settings):
    whole = run("whole", **settings)()
    records = []
    inside = run("inside", in_graph_epochs=4, **settings)(hooks=[records.append], pace=Lengths(1000))
    assert inside.outs() == whole.outs()
    longest = max(record.step - record.start for record in records if isinstance(record, LoopEnded))
    assert longest == min(4, inside.settings.epochs) * 12
    told = [record.epoch for record in records if isinstance(record, Validated)]
    assert told == list(
        range(inside.settings.validate_every, inside.settings.epochs + 1, inside.settings.validate_every)
    )


@pytest.mark.slow
@pytest.mark.parametrize("resumed", [4, 1])
def test_cut_inside_a_call(run, resumed):
    """However many epochs a call of the resumed run has."""
    whole = run("whole")().outs()
    cut = run("cut", in_graph_epochs=4, checkpoint={"every_steps": 5})
    with pytest.raises(Crash):
        cut(hooks=[crash_after(30)], pace=Lengths(1000))
    again = run("cut", in_graph_epochs=resumed)
    assert again(pace=Lengths(7)).outs() == whole
    assert any("resuming from step" in note for note in again.notes)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"compile": "xla"}, "in_graph_epochs requires `compile: graph`"),
        ({"best": {"metric": "loss", "mode": "min"}}, "`best` compares them between epochs"),
    ],
)
def test_what_does_not_go_together(run, settings, said):
    with pytest.raises(ValueError, match=said):
        run("refused", in_graph_epochs=2, **settings)


def test_python_metrics_are_outside_graphs(run, tmp_path):
    source = recipes.EVERYTHING + "\n    def evaluate(self, data):\n        return {'size': 1.0}\n"
    inside = run("python", in_graph_epochs=2)
    inside.recipe = recipes.write(tmp_path / "python", source)
    with pytest.raises(
        InputError,
        match=r"train.in_graph_epochs is 2: Everything.evaluate is Python and cannot run inside a graph: set it to 1",
    ):
        inside()


@pytest.mark.long
def test_a_validation_that_is_not_finite_is_no_fault_of_a_step(run, tmp_path, tf):
    """What a validation measures is in the history as it is; the steps before it stay, and none is skipped."""
    assert "return losses, {" in recipes.EVERYTHING
    value = "losses if training else losses + tf.where(self.taken < 20.0, float('inf'), 0.0)"
    recipe = recipes.write(
        tmp_path / "odd",
        recipes.EVERYTHING,
        ("return losses, {", f'return losses, {{"odd": {value}, '),
        ("        self.optimizer", "        self.taken = tf.Variable(0.0)\n        self.optimizer"),
        ("        poisoned", "        self.taken.assign_add(1.0)\n        poisoned"),
    )
    histories = []
    for label, settings in {"plain": {}, "inside": {"in_graph_epochs": 3}, "cut": {"in_graph_epochs": 3}}.items():
        one = run(label, max_skipped=3, checkpoint={"every_steps": 5}, **settings)
        one.recipe = recipe
        if label == "cut":
            with pytest.raises(Crash):
                one(hooks=[crash_after(15)], pace=Lengths(15))
        histories.append(one(pace=Lengths(1000)).outs()["history.csv"])
    assert histories[0] == histories[1] == histories[2]
    assert b",inf" in histories[0].splitlines()[1] and b"inf" not in histories[0].splitlines()[-1]
