"""Going on: a longer horizon, another run's weights, and what is said when neither fits."""

import contextlib
import os
import subprocess

import datasets
import numpy as np
import pytest
import recipes
from trainings import Crash, Lengths, Run, crash_after

from tapeline.runtime import processes
from tapeline.runtime.errors import InputError
from tapeline.runtime.records import LoopEnded, Note
from tapeline.train.options import steps


@pytest.fixture
def run(tmp_path, tf):
    data = datasets.blobs(tmp_path / "blobs").folder
    recipe = recipes.write(tmp_path, recipes.EVERYTHING)

    def make(label, params=None, **changes):
        return Run(tmp_path / label, recipe, data, params, **{"epochs": 2, "batch_size": 16, **changes})

    return make


@pytest.mark.slow
def test_a_finished_run_is_extended_to_the_bits_of_a_longer_one(run):
    longer = run("straight", epochs=5)().outs()
    run("same")()
    extended = run("same", epochs=5)
    extended(extend=True)
    assert extended.notes[0] == "extending a run with fewer epochs from step 12"
    assert extended.outs() == longer


@pytest.mark.slow
def test_a_run_whose_end_a_longer_one_does_not_validate_is_not_extended(run):
    run("same", validate_every=2, epochs=3)()
    with pytest.raises(InputError, match="was validated after its last epoch, 3, but a longer one would not be"):
        run("same", validate_every=2, epochs=5)(extend=True)
    run("other", validate_every=2)()
    extended = run("other", validate_every=2, epochs=5)(extend=True)
    assert extended.outs() == run("straight", validate_every=2, epochs=5)().outs()


@pytest.mark.slow
def test_an_interrupted_run_is_extended(run):
    first = run("same", epochs=3, checkpoint={"every_steps": 5})
    with pytest.raises(Crash):
        first(hooks=[crash_after(10)], pace=Lengths(5))
    extended = run("same", epochs=5)(extend=True)
    assert extended.notes[0].startswith("extending a run with fewer epochs from step 1")
    assert extended.outs() == run("straight", epochs=5)().outs()


@pytest.mark.slow
def test_a_shorter_run_that_another_process_has_is_waited_for(run):
    [lock] = run("same", epochs=1)().checkpoints.rglob("lock")
    with contextlib.ExitStack() as held:
        held.enter_context(processes.exclusive(lock, waiting=print))

        def release(record):
            if isinstance(record, Note) and record.text.startswith("waiting for process "):
                held.close()

        extended = run("same")(extend=True, hooks=[release])
    assert [note.split(" ")[0] for note in extended.notes[:2]] == ["waiting", "extending"]


@pytest.mark.slow
def test_without_extend_a_longer_run_starts_afresh_and_a_finished_one_too(run):
    run("same")()
    assert not any("resuming" in note or "extending" in note for note in run("same", epochs=5)().notes)
    assert not any("resuming" in note for note in run("same")().notes)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"epochs": 5, "seed": 1}, "the last one differs in settings.epochs, settings.seed"),
        ({"epochs": 2, "seed": 1}, "seed"),
        ({"epochs": 1}, "the last one differs in settings.epochs"),
    ],
)
def test_what_cannot_be_extended(run, changes, said):
    run("same")()
    with pytest.raises(
        InputError, match="--extend continues a run with fewer epochs and no other change, but"
    ) as raised:
        run("same", **changes)(extend=True)
    assert said in str(raised.value)


def test_nothing_to_extend(run):
    with pytest.raises(InputError, match="there is none"):
        run("first")(extend=True)


@pytest.mark.slow
def test_a_damaged_end_is_said(run):
    first = run("same")()
    file = next(first.checkpoints.rglob("final-*/state.data-00000-of-00001"))
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(InputError, match="the end of the shorter run is damaged"):
        run("same", epochs=5)(extend=True)


@pytest.mark.slow
def test_only_the_last_end_of_a_pipeline_is_kept(run):
    first = run("same")()
    run("same", seed=5)()
    assert len(list(first.checkpoints.rglob("final-*"))) == 1


@pytest.mark.slow
def test_weights_of_another_run(run, tf):
    source = run("source")()
    target = run("target", epochs=1, seed=8, init_from="source")
    target.weights = source.out / "weights"
    seen = []
    target(hooks=[seen.append], pace=Lengths(1))
    assert target.notes[0].startswith("took 7 of 7 weights from ")
    assert target.outs() != run("plain", epochs=1, seed=8)().outs()
    assert target.outs()["run.json"] != run("plain", epochs=1, seed=8)().outs()["run.json"], "they are on record"

    cut = run("cut", epochs=1, seed=8, init_from="source", checkpoint={"every_steps": 1})
    cut.weights = target.weights
    with pytest.raises(Crash):
        cut(hooks=[crash_after(3)], pace=Lengths(1))
    assert cut().outs() == target.outs()
    assert cut.notes[0].startswith("resuming"), "a checkpoint goes before them"


@pytest.mark.slow
def test_layers_that_do_not_match_are_named(run, tmp_path):
    source = run("source")()
    other = run("other", init_from="source")
    other.weights = source.out / "weights"
    other.recipe = recipes.write(tmp_path / "other", recipes.EVERYTHING, ("Dense(16, ", "Dense(17, "), ("[16]", "[17]"))
    other()
    taken, left = other.notes[:2]
    assert taken.startswith("took 1 of 7 weights from ")
    assert "model/sequential/dense/kernel" in left
    assert left.startswith("left as initialized, because no weight there has the same name and shape: ")


COPIES = """class Slow(keras.optimizers.SGD):
    def build(self, variables):
        super().build(variables)
        self.velocity = [self.add_variable_from_reference(v, "velocity", initializer="zeros") for v in variables]
        self.slow = [self.add_variable_from_reference(v, "slow", initializer="zeros") for v in variables]
        for slow, variable in zip(self.slow, variables):
            slow.assign(variable)

    def apply(self, grads, variables=None):
        super().apply(grads, variables)
        for slow, variable in zip(self.slow, self._trainable_variables):
            slow.assign(slow + 0.5 * (variable - slow))


class Line("""


@pytest.mark.parametrize("mode", ["graph", "eager"])
def test_what_began_as_a_copy_of_a_weight_follows_it(tmp_path, tf, mode):
    """The slow weights of an optimizer, and a target network."""
    from tapeline.recipe import bundles

    data = datasets.points(tmp_path / "points").folder
    source = Run(tmp_path / "source", recipes.write(tmp_path / "plain"), data, epochs=1, batch_size=8)()
    target = "\n        self.slower = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])"
    copy = (
        "\n        self.slower.set_weights(self.model.get_weights())"
        "\n        self.unknown = tf.Variable(tf.zeros([2]), shape=tf.TensorShape(None))"
    )
    edits = (
        ("class Line(", COPIES),
        ("keras.optimizers.SGD(self.params.learning_rate)", f"Slow(self.params.learning_rate){target}{copy}"),
    )
    recipe = recipes.write(tmp_path / "copying", recipes.LINE, *edits)
    settings = {"epochs": 1, "batch_size": 8, "compile": mode, "checkpoint": {"every_steps": 1}}
    run = Run(tmp_path / "target", recipe, data, {"learning_rate": 1e-6}, init_from="source", **settings)
    run.weights = source.out / "weights"
    with pytest.raises(Crash):
        run(hooks=[crash_after(1)], pace=Lengths(1))
    said = (note.removesuffix(", because it began as a copy of it") for note in run.notes if ": follows " in note)
    followed = dict(note.split(": follows ") for note in said)
    assert followed == {
        "slower/sequential_1/dense_1/kernel": "model/sequential/dense/kernel",
        "slower/sequential_1/dense_1/bias": "model/sequential/dense/bias",
        "optimizer/slow/sequential_dense_kernel_slow": "model/sequential/dense/kernel",
        "optimizer/slow/sequential_dense_bias_slow": "model/sequential/dense/bias",
    }
    assert [note.rpartition(": ")[2] for note in run.notes if note.startswith("left as initialized")] == ["unknown"]
    stored = bundles.open_(source.out / "weights" / bundles.WEIGHTS)
    values = {name: value.numpy() for name, value in stored.read(stored.shapes).items()}
    assert abs(values["model/sequential/dense/bias"]) > 0.01
    (saved,) = run.saved()
    kept = {}
    for index in saved.rglob("*.index"):
        bundle = bundles.open_(index.with_suffix(""))
        kept |= bundle.read(bundle.shapes)
    for name, original in followed.items():
        (value,) = (value.numpy() for key, value in kept.items() if key.endswith(name))
        assert np.allclose(value, values[original], atol=1e-4), name


def test_the_averages_restart_at_the_given_weights_and_are_named_as_no_copies(tmp_path, tf):
    from tapeline.recipe import bundles
    from tapeline.train import starting
    from tapeline.train.engine.averaging import Average
    from tapeline.train.engine.state import State

    bundles.write(tmp_path / bundles.WEIGHTS, {"w": tf.constant([3.0, 4.0])})
    weights = {"w": tf.Variable([1.0, 2.0])}
    state = State(weights, ("w",), (), average=Average(weights, 0.9))
    said = []
    starting.take(tmp_path, state, say=said.append)
    assert said == [f"took 1 of 1 weights from {tmp_path}"]
    assert state.variables["ema/w"].numpy().tolist() == [3.0, 4.0]


@pytest.mark.slow
def test_weights_that_fit_nowhere(run, tmp_path):
    source = run("source")()
    points = Run(
        tmp_path / "line",
        recipes.write(tmp_path / "line"),
        datasets.points(tmp_path / "p").folder,
        epochs=1,
        batch_size=8,
    )
    points.weights = source.out / "weights"
    with pytest.raises(InputError, match="train.init_from: none of the 7 weights in .* fits this recipe"):
        points()
    points.weights = tmp_path
    with pytest.raises(InputError, match="holds no weights"):
        points()


def test_the_steps_to_profile():
    assert steps("100:110") == (100, 110)
    for wrong in ("100", "110:100", "5:5", "a:b", ":", "-1:4"):
        with pytest.raises(InputError, match="give the first step and the step after the last, as in 100:110"):
            steps(wrong)


@pytest.mark.slow
def test_a_profile_of_chosen_steps(run):
    profiled = run("profiled")
    profiled(profile=(3, 5))
    assert any("wrote the profile of steps 3 to 5 to" in note for note in profiled.notes)
    assert list((profiled.folder / "traces" / "profile").rglob("*.xplane.pb"))
    assert profiled.outs() == run("plain")().outs()


def test_scalars_and_pictures_for_tensorboard(run, tmp_path, tf):
    source = recipes.EVERYTHING + (
        "\n    def pictures(self, data):\n        import numpy as np\n"
        "        return {'grey': np.full((4, 6, 1), 7, np.uint8)}\n"
    )
    shown = run("shown", tensorboard=True)
    shown.recipe = recipes.write(tmp_path / "shown", source)
    records = []
    shown(hooks=[records.append])
    pictures = [record.pictures for record in records if type(record).__name__ == "Validated"]
    assert len(pictures) == 2
    assert np.array_equal(pictures[0]["grey"], np.full((4, 6, 1), 7, np.uint8))
    files = sorted((shown.folder / "traces" / "pictures").iterdir())
    assert [file.name for file in files] == [f"grey-{step:08d}.png" for step in (6, 12)]
    assert np.array_equal(tf.io.decode_png(files[0].read_bytes()).numpy(), pictures[0]["grey"])
    tags = set()
    for file in (shown.folder / "traces" / "tensorboard").rglob("*tfevents*"):
        for event in tf.compat.v1.train.summary_iterator(str(file)):
            tags |= {(file.parent.name, value.tag) for value in event.summary.value}
    assert tags == {("train", "loss"), ("train", "accuracy"), ("val", "loss"), ("val", "accuracy"), ("val", "grey")}


def test_the_last_of_several_other_runs_is_compared_and_many_differences_are_counted(tf, tmp_path):
    import os

    from tapeline.runtime import files
    from tapeline.train import starting

    for age, (name, covered) in enumerate(
        {"a": {"x": 1, "y": 1}, "b": {"x": 1, "y": 2}, "c": {"x": 2, "y": 3}}.items()
    ):
        (tmp_path / name / f"step-{age:012d}").mkdir(parents=True)
        record = tmp_path / name / starting.RECORD
        files.write_json(record, covered)
        os.utime(record, (1000 + age, 1000 + age))
    assert starting._why_fresh(tmp_path / "new", {"x": 2, "y": 4}) == "y"
    assert starting._why_fresh(tmp_path / "c", {"x": 2, "y": 2}) == "x"  # its own record is no other run's
    (tmp_path / "c" / "step-000000000002").rmdir()
    assert starting._why_fresh(tmp_path / "new", {"x": 1, "y": 3}) == "y"
    assert starting._why_fresh(tmp_path / "elsewhere" / "new", {}) == ""
    assert starting._listed(list("abcde")) == "a, b, c, d, e"
    assert starting._listed(list("abcdef")) == "a, b, c, d, e and 1 more"


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a disk")
def test_a_disk_that_fills_up_during_training_costs_what_watches_it_and_nothing_else(run, tmp_path):
    """Checkpoints, pictures, TensorBoard's files and a profile are on a full disk; the outputs are on another one."""
    source = recipes.EVERYTHING + (
        "\n    def pictures(self, data):\n        import numpy as np\n"
        "        return {'grey': np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)}\n"
    )
    path = recipes.write(tmp_path / "shown", source)
    whole = run("whole")
    whole.recipe = path
    full = run("full", tensorboard=True, checkpoint={"every_steps": 2})
    full.recipe, disk = path, tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(disk)], check=True)
    try:
        (full.folder).mkdir()
        for name in ("checkpoints", "traces"):
            (disk / name).mkdir()
            (full.folder / name).symlink_to(disk / name)

        def fill(record):
            if isinstance(record, LoopEnded) and record.step == 2:
                with (disk / "filler").open("wb", buffering=0) as file, contextlib.suppress(OSError):
                    while file.write(bytes(4096)):
                        pass

        full(hooks=[fill], pace=Lengths(2), profile=(8, 10))
        said = "\n".join(full.notes)
        for name in ("pictures", "scalars for TensorBoard", "profiles"):
            assert said.count(f"{name}: No space left on device") == 1, said
        assert "checkpoint of step" in said and "could not be written (No space left on device)" in said
        assert full.outs() == whole().outs()
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)
