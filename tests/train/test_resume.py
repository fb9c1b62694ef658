"""Everything at once, cut at every place, planted with a NaN: still the same bits."""

import datasets
import pytest
import recipes
from trainings import Crash, Lengths, Run, crash_after, waiting_for_saves

from tapeline.runtime.errors import InputError, LimitReached, RunError
from tapeline.runtime.records import LoopEnded, Saved, Skipped, Validated

ALL = {
    "epochs": 4,
    "batch_size": 16,
    "seed": 3,
    "best": {"metric": "loss", "mode": "min"},
    "gradients": {"optimizer": {"clip_global_norm": 0.5, "noise": 0.001, "weight_decay": 0.0001}},
}


@pytest.fixture
def run(tmp_path, tf):
    data = datasets.blobs(tmp_path / "blobs").folder
    recipe = recipes.write(tmp_path, recipes.EVERYTHING)

    def make(label, params=None, **changes):
        return Run(tmp_path / label, recipe, data, params, **{**ALL, **changes})

    return make


SLOW_XLA = ["graph", pytest.param("xla", marks=pytest.mark.slow)]


@pytest.mark.parametrize("mode", ["graph", pytest.param("xla", marks=pytest.mark.long)])
@pytest.mark.slow
def test_cut_at_every_step(run, mode):
    """Within an epoch, at its end before and after its validation, and before the last step."""
    whole = run("whole", compile=mode)(pace=Lengths(7)).outs()
    cut = run("cut", compile=mode, checkpoint={"every_steps": 1})
    for step in (1, 6, 17) if mode == "xla" else (1, 5, 6, 12, 23):
        with pytest.raises(Crash):
            cut(hooks=[crash_after(step)], pace=Lengths(1))
    assert cut().outs() == whole


@pytest.mark.slow
def test_another_seed_gives_other_bits(run):
    assert run("a")().outs()["history.csv"] != run("b", seed=4)().outs()["history.csv"]


@pytest.mark.in_ci(1)
@pytest.mark.parametrize("mode", [*SLOW_XLA, pytest.param("eager", marks=pytest.mark.slow)])
def test_a_planted_nan_gives_the_bits_of_a_run_told_to_skip_that_step(run, mode):
    """The recipe poisons BatchNorm's moving mean, not the loss: the state is what is guarded."""
    skipped = []
    poisoned = run("poisoned", {"poison": 9}, compile=mode, max_skipped=1)
    poisoned(hooks=[lambda r: skipped.append(r.start) if isinstance(r, Skipped) else None], pace=Lengths(8))
    assert skipped == [9]

    told = run("told", {"poison": -1}, compile=mode, skip=[9])()
    a, b = poisoned.outs(), told.outs()
    assert {n: c for n, c in a.items() if n != "run.json"} == {n: c for n, c in b.items() if n != "run.json"}
    assert b'"skipped_steps": 1' in a["metrics.json"]


def test_too_many_nans_stop_with_the_step_the_metric_and_a_checkpoint(run):
    poisoned = run("poisoned", {"poison": 9})
    with pytest.raises(RunError, match=r"step 9: .*moving_mean.* has a non-finite value, and train.max_skipped is 0"):
        poisoned()
    assert [path.name for path in poisoned.saved()] == ["step-000000000009"]
    with pytest.raises(RunError, match="step 9: "):
        poisoned()
    assert poisoned.notes[0] == "resuming from step 9"
    assert not poisoned.out.exists()


@pytest.mark.slow
def test_skips_survive_a_resume(run):
    whole = run("whole", {"poison": 9}, max_skipped=1)().outs()
    cut = run("cut", {"poison": 9}, max_skipped=1, checkpoint={"every_steps": 1})
    with pytest.raises(Crash):
        cut(hooks=[crash_after(11)])
    assert cut().outs() == whole


@pytest.mark.slow
def test_a_run_that_had_to_skip_too_much_resumes_when_it_may_skip_more(run):
    whole = run("whole", {"poison": 9}, max_skipped=1)().outs()
    with pytest.raises(RunError, match="step 9: "):
        run("cut", {"poison": 9})()
    more = run("cut", {"poison": 9}, max_skipped=1)()
    assert more.notes[0] == "resuming from step 9"
    assert more.outs() == whole


@pytest.mark.slow
def test_a_run_that_has_skipped_more_than_it_may_is_not_resumed(run):
    """From the beginning it would have stopped at that step."""
    with pytest.raises(Crash):
        run("cut", {"poison": 9}, max_skipped=1, checkpoint={"every_steps": 1})(hooks=[crash_after(11)])
    with pytest.raises(InputError, match="this run has skipped 1 steps, but train.max_skipped is 0: raise it, or"):
        run("cut", {"poison": 9})()


@pytest.mark.slow
def test_max_time_ends_with_a_checkpoint_and_the_next_call_goes_on(run):
    whole = run("whole")().outs()
    limited = run("limited", max_time=1e-9)
    calls = 0
    while True:
        calls += 1
        try:
            limited(pace=Lengths(8))
            break
        except LimitReached as error:
            assert "train.max_time of 1e-09 s reached at step" in str(error)
            assert limited.saved()
            assert not limited.out.exists()
    assert calls == 4
    assert limited.outs() == whole


def test_patience_ends_early_and_is_a_result(run):
    patient = run("patient", epochs=60, best={"metric": "loss", "mode": "max", "patience": 2})
    validations = []
    patient(hooks=[lambda r: validations.append(r) if isinstance(r, Validated) else None])
    best = max(validations, key=lambda record: record.metrics["loss"])
    assert len(validations) == validations.index(best) + 3 < 60
    assert f'"step": {best.step}'.encode() in patient.outs()["metrics.json"]


def test_no_data_is_read_after_patience_ran_out(run, monkeypatch):
    from tapeline.train.data import feed

    read, chunks = [], feed.Feed.chunks
    monkeypatch.setattr(feed, "CHUNK_STEPS", 1)
    monkeypatch.setattr(feed.Feed, "chunks", lambda *given: (read.append(c.end) or c for c in chunks(*given)))
    ended = []
    patient = run("patient", epochs=60, best={"metric": "loss", "mode": "max", "patience": 2})
    patient(hooks=[lambda r: ended.append(r.step) if isinstance(r, LoopEnded) else None])
    assert read[-1] == ended[-1] < 60 * 6


def test_a_hook_sees_frozen_records_in_order(run):
    records = []
    run("hooked", epochs=2)(hooks=[records.append], pace=Lengths(4))
    loops = [(record.start, record.step) for record in records if isinstance(record, LoopEnded)]
    assert loops == [(0, 4), (4, 6), (6, 10), (10, 12)]
    with pytest.raises(AttributeError):
        records[0].step = 5


@pytest.mark.parametrize(
    "damage",
    [
        "flip",
        pytest.param("cut", marks=pytest.mark.slow),
        pytest.param("empty", marks=pytest.mark.slow),
        pytest.param("missing", marks=pytest.mark.slow),
        pytest.param("manifest", marks=pytest.mark.slow),
    ],
)
def test_a_damaged_checkpoint_is_said_and_the_one_before_is_used(run, damage):
    whole = run("whole")().outs()
    cut = run("cut", checkpoint={"every_steps": 4})
    with pytest.raises(Crash):
        cut(hooks=[waiting_for_saves(4), crash_after(12)], pace=Lengths(4))
    newest = cut.saved()[-1]
    file = newest / ("manifest" if damage == "manifest" else "state.data-00000-of-00001")
    content = bytearray(file.read_bytes())
    if damage == "missing":
        file.unlink()
    else:
        content[len(content) // 2] ^= 1
        file.write_bytes({"cut": content[:-1], "empty": b""}.get(damage, bytes(content)))
    cut()
    assert cut.notes[0].startswith("ignoring a damaged checkpoint: ")
    assert newest.name in cut.notes[0]
    assert cut.notes[1] == f"resuming from step {int(newest.name[5:]) - 4}"
    assert cut.outs() == whole


@pytest.mark.slow
def test_other_parameters_start_fresh_and_say_why(run):
    first = run("same", checkpoint={"every_steps": 4})
    with pytest.raises(Crash):
        first(hooks=[crash_after(4)], pace=Lengths(4))
    other = run("same", seed=9)()
    assert (
        other.notes[0]
        == "starting at step 0: the existing checkpoint is of another run, which differs in settings.seed"
    )
    assert first().notes[0].startswith("resuming from step"), "the other run's checkpoints are untouched"


@pytest.mark.slow
def test_a_checkpoint_made_with_another_input_is_not_used(run, tmp_path):
    (tmp_path / "judge").mkdir()
    (tmp_path / "judge" / "model.bin").write_bytes(b"one")
    cut = run("needs", checkpoint={"every_steps": 4})
    cut.needs = tmp_path / "judge"
    with pytest.raises(Crash):
        cut(hooks=[crash_after(4)], pace=Lengths(4))
    (tmp_path / "judge" / "model.bin").write_bytes(b"two")
    assert cut().notes[0] == "starting at step 0: the existing checkpoint is of another run, which differs in needs"
    cut.needs = tmp_path / "gone"
    with pytest.raises(InputError, match="needs names .*/gone, which does not exist"):
        cut()


@pytest.mark.slow
def test_fresh_drops_the_checkpoints(run):
    cut = run("cut", checkpoint={"every_steps": 4})
    with pytest.raises(Crash):
        cut(hooks=[crash_after(4)], pace=Lengths(4))
    cut(fresh=True)
    assert not any(note.startswith("resuming") for note in cut.notes)


@pytest.mark.slow
def test_saving_often_and_saving_elsewhere_change_nothing(run):
    saves = {"often": [], "seldom": []}
    often = run("often", checkpoint={"every_steps": 1, "keep": 1})
    often(hooks=[lambda r: saves["often"].append(r.step) if isinstance(r, Saved) else None], pace=Lengths(1))
    seldom = run("seldom", checkpoint={"every_steps": 1000})
    seldom(hooks=[lambda r: saves["seldom"].append(r.step) if isinstance(r, Saved) else None])
    # How many of the others a writer that is still busy leaves out depends on the disk.
    assert saves["often"][0] == 1 and saves["seldom"] == []
    assert often.outs() == seldom.outs()


def test_a_batch_larger_than_the_split_is_refused_before_tensorflow(run):
    with pytest.raises(InputError, match=r"train.batch_size is 101: .* has only 100 training examples"):
        run("large", batch_size=101)()
