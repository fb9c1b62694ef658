"""`tapeline tune`: every mode that the recipe has, a winner, lines that `params.yaml` takes."""

import math
import os

import pytest
import recipes
from ruamel.yaml import YAML

from tapeline.config.train import TrainSettings
from tapeline.runtime.errors import InputError
from tapeline.tuning.choice import Measured, Mode, allowed, candidates, cut, is_good, sharded, winner

GRAPH, XLA, HALF = Mode("graph", "float32"), Mode("xla", "float32"), Mode("graph", "mixed_bfloat16")


def one(mode=GRAPH, speed=100.0, loss=1.0, first=2.0):
    return Measured(mode, 1.0, speed, first, loss, 50)


def test_candidates_begin_with_the_reference():
    modes = {"eager": ("float32",), "xla": ("mixed_bfloat16", "float32"), "graph": ("float32",)}
    found = [str(mode) for mode in candidates(modes)]
    assert found == [
        "graph float32",
        "graph float32 fused",
        "xla float32",
        "xla float32 fused",
        "xla mixed_bfloat16",
        "xla mixed_bfloat16 fused",
        "eager float32",
    ]
    assert candidates({"xla": ("float32",)})[0] == XLA


def test_the_fastest_good_one_wins():
    assert winner([one(), one(XLA, 300), one(HALF, 200)]).mode == XLA
    assert winner([one(), one(XLA, 300, loss=1.2), one(HALF, 200)]).mode == HALF
    assert winner([one(), one(XLA, 300, loss=math.nan), one(HALF, 200, loss=None)]).mode == GRAPH
    assert winner([one(loss=math.nan)]) is None


def test_of_equally_fast_ones_the_plainest():
    assert winner([one(), one(XLA, 104)]).mode == GRAPH
    assert winner([one(), one(XLA, 106)]).mode == XLA


def test_shards_are_tried_with_the_fastest_good_graph_mode():
    measured = [one(), one(XLA, 300), one(HALF, 200), one(Mode("graph", "float32", fused=True), 250, loss=9.0)]
    assert sharded(measured, 2) == HALF._replace(shards=2)
    assert str(HALF._replace(shards=2)) == "graph mixed_bfloat16 2 shards"
    assert sharded(measured, 1) is None
    assert sharded([one(XLA)], 2) is None


def test_the_fastest_without_shards_is_cut_for_the_cores_too():
    measured = [one(), one(XLA, 300), one(HALF._replace(shards=2), 400)]
    assert cut(measured, 2) == XLA._replace(threads=2)
    assert str(XLA._replace(threads=2)) == "xla float32 2 threads"
    assert cut(measured, 4) is None
    assert cut([one(loss=math.nan)], 2) is None


def test_what_counts_as_good():
    """5 % of the loss or of its fall, whichever is more; a negative loss has no other rule."""
    assert allowed(one(loss=1.0, first=2.0)) == pytest.approx(1.05)
    assert allowed(one(loss=0.001, first=2.001)) == pytest.approx(0.101)
    assert allowed(one(loss=-1.0, first=1.0)) == pytest.approx(-0.9)
    assert is_good(one(XLA, loss=-0.95), one(loss=-1.0, first=1.0))
    assert is_good(one(XLA, loss=7.0), one(loss=None))


def test_the_median_is_that_of_the_long_loops(tf):
    from tapeline.tuning.measuring import weighted_median

    assert weighted_median([(1.0, 1), (2.0, 2), (4.0, 4), (10.0, 100), (11.0, 100)]) == 10.0
    assert weighted_median([]) == 0.0


def chosen(lines):
    """Return the settings in the closing lines, as `params.yaml` would hold them."""
    start = next(n for n, line in enumerate(lines) if "params.yaml, pipelines.fit.train" in line)
    return YAML(typ="safe").load("\n".join(lines[start + 1 :]))


@pytest.mark.long
def test_every_mode_of_a_recipe(project, tf, monkeypatch):
    project.save(recipes.LINE, ("Dense(1)", 'Dense(3), keras.layers.Dense(1, dtype="float32")'))
    before = project.files()
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    status, lines, err = project.call("tune", "fit", "--seconds", "0.2", "--steps", "10")
    assert (status, err) == (0, "")
    *plain, parted, threaded = [line[:45].split() for line in lines[2:14]]
    assert plain == [
        ["graph", "float32", "no", "1", "4"],
        ["graph", "float32", "yes", "1", "4"],
        ["graph", "mixed_bfloat16", "no", "1", "4"],
        ["graph", "mixed_bfloat16", "yes", "1", "4"],
        ["xla", "float32", "no", "1", "4"],
        ["xla", "float32", "yes", "1", "4"],
        ["xla", "mixed_bfloat16", "no", "1", "4"],
        ["xla", "mixed_bfloat16", "yes", "1", "4"],
        ["eager", "float32", "no", "1", "4"],
        ["eager", "mixed_bfloat16", "no", "1", "4"],
    ]
    assert (parted[0], *parted[3:]) == ("graph", "2", "1")
    assert threaded[3:] == ["1", "2"]
    assert len({len(line) for line in lines[1:3]}) == 1, "the table is aligned"
    for line in lines[2:14]:
        compiling, speed, loss = (float(part.replace(",", "")) for part in line[45:].split()[:3])
        assert compiling > 0
        assert speed > 0
        assert 0 < loss < 10
    settings = chosen(lines)
    assert set(settings) == {"compile", "precision", "fused", "shards", "threads"}
    assert TrainSettings(epochs=2, batch_size=8, **settings).model_fields_set >= settings.keys()
    assert f"winner: {Mode(**settings)}, " in "\n".join(lines)
    assert project.files() == before


def test_the_loss_is_that_of_training(project, tf):
    """By hand: the mean over steps 5 to 9 of the same batches from the same weights."""
    from tapeline.dataset.columns import Dataset
    from tapeline.train.assembly import assemble
    from tapeline.tuning.measuring import measure

    project.save()
    data, recipe = Dataset.open(project.folder / "data/points"), project.folder / "recipe.py"
    settings = TrainSettings(epochs=2, batch_size=8)
    parts = assemble(recipe, {}, settings, data)
    losses = []
    for chunk in parts.feed.chunks(0, 10):
        for step in range(10):
            _, table, _ = parts.loop(chunk, step, step + 1, tf.zeros([1, 2], tf.float64))
            losses.append(table.numpy()[0, 0, 0] / 8)
    for mode in (GRAPH, XLA):
        measured = measure(recipe, {}, settings, data, mode, steps=10, seconds=0.01)
        assert measured.first_loss == pytest.approx(losses[0], rel=1e-5)
        assert measured.loss == pytest.approx(sum(losses[5:]) / 5, rel=1e-5)
        assert measured.steps >= 10


@pytest.mark.parametrize(
    ("settings", "mode", "said"),
    [
        ({"in_graph_epochs": 2}, XLA, "train: in_graph_epochs requires `compile: graph`"),
        ({"bits": "native"}, GRAPH._replace(threads=2), "train: threads requires `bits: portable`"),
    ],
)
def test_a_mode_that_the_other_settings_exclude_is_not_measured(project, tf, settings, mode, said):
    from tapeline.dataset.columns import Dataset
    from tapeline.tuning.measuring import measure

    project.save()
    data, asked = Dataset.open(project.folder / "data/points"), TrainSettings(epochs=2, batch_size=8, **settings)
    with pytest.raises(InputError, match=said):
        measure(project.folder / "recipe.py", {}, asked, data, mode, steps=10, seconds=0.01)


@pytest.mark.long
def test_a_slow_mode_is_left_and_one_that_fails_is_said(project, tf, monkeypatch):
    """Eager sleeps; XLA cannot compile the step; AdamW has no fused kernel; one core has no shards."""
    from tapeline.tuning import measuring

    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0})
    monkeypatch.setattr(measuring, "PATIENCE", 1)
    slow = (
        "    def train_step(self, batch, context):\n"
        "        if tf.executing_eagerly():\n            import time; time.sleep(0.05)\n"
        "        drawn = tf.raw_ops.RandomIndexShuffle(index=context.step, seed=[1, 2, 3], max_index=context.step, "
        "rounds=4)\n"
        "        metrics = dict(super().train_step(batch, context))\n"
        "        return {**metrics, 'drawn': (tf.cast(drawn, tf.float32), 1.0)}\n\n    def predict("
    )
    project.pipeline["train"]["precision"] = "float32"
    modes = (
        'target = ("x",), "y"\n',
        'target = ("x",), "y"\n    modes = {"graph": ("float32",), "xla": ("float32",), "eager": ("float32",)}\n',
    )
    project.save(recipes.LINE, modes, ("    def predict(", slow), ("optimizers.SGD", "optimizers.AdamW"))
    status, lines, _ = project.call("tune", "fit", "--seconds", "0.2", "--steps", "50")
    assert status == 0
    assert [line.split()[0] for line in lines[2:5]] == ["graph", "xla", "eager"]
    assert "fails in a step" in lines[3]
    assert "too slow: stopped after " in lines[4]
    settings = chosen(lines)
    assert settings.pop("threads") in (1, 4)  # whichever is faster
    assert settings == {"compile": "graph", "precision": "float32", "fused": False, "shards": 1}
    already = "params.yaml, pipelines.fit.train, already says:"
    assert (already in lines) == (chosen(lines)["threads"] == 4)


@pytest.mark.long
def test_a_mode_whose_process_dies_is_said(project, tf, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    dies = "        import multiprocessing, os\n        multiprocessing.parent_process() and os._exit(9)\n"
    modes = 'target = ("x",), "y"\n    modes = {"graph": ("float32",)}\n'
    build = "    def build(self):\n"
    project.save(recipes.LINE, (build, build + dies), ('target = ("x",), "y"\n', modes))
    status, lines, _ = project.call("tune", "fit", "--seconds", "0.2", "--steps", "5")
    assert status == 0
    assert (lines[4].split()[0], lines[4].split()[3]) == ("graph", "2")
    assert lines[4].endswith("its process ended with status 9")
    assert chosen(lines)["shards"] == 1


@pytest.mark.long
@pytest.mark.slow
def test_why_shards_were_not_measured_is_said(project, tf, monkeypatch):
    modes = 'target = ("x",), "y"\n    modes = {"graph": ("float32",)}\n'
    own = (
        "    def train_step(self, batch, context):\n"
        "        for _ in tf.range(1):\n            self.model.layers[0].bias.assign_add([0.0])\n"
        "        return super().train_step(batch, context)\n\n    def loss("
    )
    project.save(recipes.LINE, ('target = ("x",), "y"\n', modes), ("    def loss(", own))
    for cores, said in (
        (2, "bias is inside a loop, "),
        (3, "not tried: 8 examples do not divide into 3 parts"),
    ):
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid, cores=cores: set(range(cores)))
        status, lines, _ = project.call("tune", "fit", "--seconds", "0.2", "--steps", "5")
        assert status == 0
        assert lines[4].split()[3] == str(cores)
        assert said in lines[4]


def test_a_broken_recipe_is_said_once(project, tf):
    project.save(recipes.LINE, ("self.model(batch", "self.mdel(batch"))
    status, _, err = project.call("tune", "fit")
    assert status == 2
    assert len(err.splitlines()) == 1
    assert "AttributeError" in err
