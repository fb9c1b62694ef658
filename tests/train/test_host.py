"""The host around a loop of plain Python: what it tells, proves, replays, skips and saves."""

from types import SimpleNamespace

import numpy as np
import pytest
from trainings import Lengths

from tapeline.config.train import Best, TrainSettings
from tapeline.runtime.errors import InputError, Interrupted, LimitReached, NotRepeatable, RunError
from tapeline.runtime.records import LoopEnded, Skipped, Started

EPOCH = 4
"""Steps."""


class Loop:
    """Adds each step's number to the metric's sum, and 1 to the weight; steps of `poison` leave a NaN."""

    trained = ("loss",)

    def __init__(self, tf, state):
        self.tf, self.state, self.poison, self.stop, self.calls = tf, state, set(), 1 << 40, []
        self.drift = {"table": 0.0, "w": 0.0}

    def next_stop(self, step):
        return step + 1000

    def __call__(self, chunk, start, end, sums):
        self.calls.append((start, end))
        table, row, reached = np.zeros((9, 1, 2)), 0, start
        if start < min(end, self.stop):
            table[0] = sums
        while reached < min(end, self.stop):
            table[row] += (np.nan if reached in self.poison else reached, 1)
            reached += 1
            row += reached % EPOCH == 0
        table[0, 0, 0] += self.drift["table"] * len(self.calls)
        self.state.variables["w"].assign_add(float(reached - start) + self.drift["w"] * len(self.calls))
        finite = np.isfinite(table).all() and np.isfinite(self.state.variables["w"].numpy())
        return reached, self.tf.constant(table), bool(finite)


@pytest.fixture
def make(tf):
    """Return a function that makes an engine at a step; what it told and saved is in `told` and `saved`."""
    from tapeline.train.data.feed import Chunk
    from tapeline.train.engine.host import Engine
    from tapeline.train.engine.state import State

    def made(*lengths, step=0, size=1000, kept=None, stops=(), repeatable=True, **settings):
        state = State({"n": tf.Variable(0), "w": tf.Variable(0.0)}, ("w",), ("loss",), step=step, best=kept)
        state.best_weights = state.kept() if kept else {}
        feed = SimpleNamespace(
            chunks=lambda start, stop: (Chunk(n, min(n + size, stop), {}) for n in range(start, stop, size)),
            is_repeatable=lambda step: repeatable,
        )
        told, saved, ticks = [], [], iter(range(1000))
        engine = Engine(
            settings=TrainSettings(**{"epochs": 3, "batch_size": 5, **settings}),
            state=state,
            loop=Loop(tf, state),
            feed=feed,
            steps_per_epoch=EPOCH,
            hooks=[told.append, *stops],
            save=saved.append,
            pace=Lengths(*lengths or (100,)),
            clock=lambda: next(ticks),
        )
        engine.told, engine.saved = told, saved
        return engine

    return made


class EveryStep:
    """A hook before which a loop must end at each step."""

    def next_stop(self, step):
        return step + 1

    def __call__(self, record):
        pass


def running(signum=None):
    return SimpleNamespace(signum=signum)


def test_what_is_told_of_each_loop(make):
    engine = make(3, 5)
    engine.run(running())
    started, *loops = engine.told
    assert started == Started(step=0, total=12, steps_per_epoch=4)
    assert loops == [
        LoopEnded(start=start, step=step, total=12, epoch=epoch, metrics={"loss": loss}, seconds=1, examples=examples)
        for start, step, epoch, loss, examples in [(0, 3, 0, 1.0, 15), (3, 8, 2, 5.5, 25), (8, 11, 2, 9.0, 15), (11, 12, 3, 9.5, 5)]
    ]  # fmt: skip
    assert engine.state.variables["w"].numpy() == 12 and engine.finished and engine.saved == []


def test_all_chunks_are_gone_through_and_the_first_one_proves(make):
    engine = make(4, size=5)
    engine.run(running())
    assert engine.loop.calls == [*[(0, 2), (0, 2)], *[(0, 4), (4, 5), (5, 9), (9, 10), (10, 12)]]


@pytest.mark.parametrize("step", [0, 300])
@pytest.mark.parametrize(("drifts", "named"), [("table", "the metrics"), ("w", "w")])
def test_two_steps_that_give_two_results_are_refused_wherever_a_run_begins(make, step, drifts, named):
    engine = make(step=step, epochs=100)
    engine.loop.drift[drifts] = 0.5
    with pytest.raises(NotRepeatable, match=f"gave two results for {named} from the same state and batch"):
        engine.run(running())
    assert engine.loop.calls == [(step, step + 2)] * 2
    assert engine.saved == [] and engine.state.variables["w"].numpy() == 0


def test_the_proof_leaves_the_state_and_ends_where_a_loop_must(make):
    watched = []
    engine = make(step=300, epochs=100, stops=[EveryStep()], repeatable=False)
    engine.watch = lambda: watched.append(engine.state.step)
    with pytest.raises(NotRepeatable, match="prepare gave two results for the same step"):
        engine.run(running())
    assert engine.loop.calls == [(300, 301)] * 2 and watched == [300]


@pytest.mark.parametrize(
    ("skip", "step", "calls"),
    [
        ((1,), 0, [(0, 1), (0, 1), (0, 1), (2, 12)]),
        ((0, 1), 0, [(2, 4), (2, 4), (2, 12)]),
        ((10,), 10, [(11, 12), (11, 12), (11, 12)]),
        ((10, 11), 10, []),
    ],
)
def test_a_step_that_is_to_be_skipped_is_not_run_for_the_proof_either(make, skip, step, calls):
    engine = make(skip=skip, step=step)
    engine.run(running())
    assert engine.loop.calls == calls and engine.state.step == 12


def test_the_first_step_that_is_not_skipped_is_proved_in_a_later_chunk_too(make):
    engine = make(size=2, skip=(0, 1))
    engine.loop.drift["w"] = 0.5
    with pytest.raises(NotRepeatable, match="gave two results for w"):
        engine.run(running())
    assert engine.loop.calls == [(2, 4)] * 2


def test_a_loop_that_was_asked_to_stop_proves_nothing(make):
    engine = make(step=300, epochs=100)
    engine.loop.drift["table"], engine.loop.stop = 0.5, 301
    with pytest.raises(Interrupted, match="^stopped at step 300 of 400; its checkpoint is saved: run again to resume$"):
        engine.run(running(15))
    assert engine.loop.calls == [(300, 302)]
    (snapshot,) = engine.saved
    assert snapshot.step == 300 and snapshot.tensors["state/w"].numpy() == 0, "the step that was made is not half kept"


def test_a_loop_that_is_stopped_before_its_first_step_changes_nothing(make):
    engine = make(2)
    stopper = running()

    def hook(record):
        if isinstance(record, LoopEnded):
            engine.loop.stop, stopper.signum = record.step, 15

    engine.hooks.append(hook)
    engine._check_signal = lambda stopper: None if len(engine.loop.calls) < 4 else original(stopper)
    original = type(engine)._check_signal.__get__(engine)
    with pytest.raises(Interrupted, match="^stopped at step 2 of 12"):
        engine.run(stopper)
    assert engine.loop.calls == [(0, 2), (0, 2), (0, 2), (2, 4)] and len(engine.told) == 2
    (snapshot,) = engine.saved
    assert snapshot.record["sums"] == [[1.0, 2.0]], "the sums of the epoch's two steps"


def test_a_loop_that_is_stopped_before_its_first_step_cannot_make_a_variable_finite(make):
    """One may start non-finite if the first step sets it: that step was not taken."""
    engine = make()
    engine.state.variables["w"].assign(np.inf)
    engine._is_finite, engine.loop.stop = False, 0

    class Late:
        @property
        def signum(self):
            return 15 if len(engine.loop.calls) > 1 else None

    with pytest.raises(Interrupted, match="^stopped at step 0 of 12; its checkpoint is saved"):
        engine.run(Late())
    assert engine.loop.calls == [(0, 2), (0, 1)] and [snapshot.step for snapshot in engine.saved] == [0]


def test_what_is_not_finite_is_replayed_in_shorter_loops_and_skipped(make):
    engine = make(8, skip=(2,), max_skipped=1)
    engine.loop.poison = {2, 5}
    engine.run(running())
    assert engine.loop.calls == [
        *[(0, 2), (0, 2)],  # the proof
        *[(0, 2), (3, 11), (3, 7), (3, 5), (5, 12), (5, 8), (5, 6), (6, 7), (7, 12)],
    ]
    assert [record for record in engine.told if isinstance(record, Skipped)] == [
        Skipped(start=2, step=3, epoch=0, reason="train.skip names it"),
        Skipped(start=5, step=6, epoch=1, reason="loss is nan"),
    ]
    assert [row["loss"] for row in engine.state.history] == [4 / 3, 17 / 3, 9.5]
    assert engine.state.variables["w"].numpy() == 10 and engine.state.skipped == [2, 5]


def test_too_many_skips_end_it(make):
    engine = make(8, skip=(2,), max_skipped=1)
    engine.loop.poison = {2, 5, 8}
    with pytest.raises(
        RunError, match="step 8: loss is nan, and train.max_skipped is 1; its checkpoint is saved: raise"
    ):
        engine.run(running())
    (snapshot,) = engine.saved
    assert snapshot.step == 8 and np.isfinite(snapshot.record["sums"]).all()


@pytest.mark.parametrize(
    ("step", "stale", "patience", "finished"),
    [
        (11, 0, None, False),
        (12, 0, None, True),
        (4, 1, 2, False),
        (4, 2, 2, True),
        (4, 3, 2, True),
        (4, 9, None, False),
    ],
)
def test_it_is_finished_after_all_epochs_or_when_patience_ran_out(make, step, stale, patience, finished):
    kept = {"value": 1.0, "step": 1, "stale": stale}
    engine = make(step=step, kept=kept, best=Best(metric="loss", mode="min", patience=patience))
    assert engine.finished is finished
    if finished:
        engine.run(running(15))  # too late to stop it
    else:
        with pytest.raises(Interrupted):
            engine.run(running(15))
    assert len(engine.saved) == (not finished)


def test_an_error_of_a_hook_leaves_a_checkpoint_unless_nothing_was_done(make):
    for error, saves in ((LimitReached("over"), [4]), (InputError("wrong"), []), (ValueError("bug"), [])):
        engine = make(4)

        def hook(record, error=error):
            if isinstance(record, LoopEnded):
                raise error

        engine.hooks.append(hook)
        with pytest.raises(type(error)):
            engine.run(running())
        assert [snapshot.step for snapshot in engine.saved] == saves


def test_it_is_abandoned_with_the_snapshot_before_the_running_loop(make):
    engine = make(5)
    engine.run(running())
    interrupted = engine.abandon(2)
    assert [snapshot.step for snapshot in engine.saved] == [10] and interrupted.status == 130
    assert str(interrupted).startswith("stopped at step 10 of 12; ")


def test_a_loop_that_ends_after_it_was_abandoned_saves_no_second_checkpoint(make):
    """XLA's loops take about as long as the watcher waits for them, so either may be first."""
    engine = make(5)
    stopper, told = running(), []

    def hook(record):
        if isinstance(record, LoopEnded):
            stopper.signum = 15
            told.append(str(engine.abandon(15)))

    engine.hooks.append(hook)
    with pytest.raises(Interrupted):
        engine.run(stopper)
    assert [snapshot.step for snapshot in engine.saved] == [0]
    assert told[0].startswith("stopped at step 0 of 12; ")


def test_what_xla_has_not_is_named(tf):
    from tapeline.train.engine.host import _not_compiled

    def error(said):
        return SimpleNamespace(
            message=f"{said}: B (No registered 'B' OpKernel for XLA), A (No registered 'A'), B (No registered"
        )

    assert (
        str(_not_compiled(error("Detected unsupported operations")))
        == "train.compile is xla, which does not support A, B: use graph"
    )
    loop = "Input 1 to node `while` with op TensorListReserve must be a compile-time constant."
    said = str(_not_compiled(SimpleNamespace(message=loop)))
    assert said.startswith("train.compile is xla, where the length of a loop must be known") and "\n" not in said
    for other in (error("Something else"), SimpleNamespace(message="Detected unsupported operations")):
        assert _not_compiled(other) is other
