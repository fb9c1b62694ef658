"""Small pure decisions: how long a loop is, when a checkpoint is due, which stay, when time is over."""

import pytest

from tapeline.config.train import CheckpointPolicy
from tapeline.runtime.errors import LimitReached
from tapeline.runtime.records import LoopEnded, Started
from tapeline.train.engine.pace import Pace
from tapeline.train.limit import TimeLimit


def test_loops_grow_to_four_tenths_of_a_second():
    pace, step, lengths = Pace(), 0, []
    for number in range(12):
        end = pace.end(step, ())
        lengths.append(end - step)
        pace.took(end - step, 3.0 if number == 0 else (end - step) * 0.001)  # the first one compiles
        step = end
    assert lengths[:5] == [1, 1, 8, 64, 400]
    assert set(lengths[5:]) == {400}
    pace.took(400, 0.5)
    assert pace.end(0, ()) == 320
    pace.took(320, 4.0)
    assert pace.end(0, ()) == 32


def test_a_loop_that_was_cut_short_by_a_stop_does_not_grow():
    pace = Pace()
    pace.length = 64
    assert pace.end(100, (110, 200)) == 110
    pace.took(10, 0.01)
    assert pace.length == 64


def test_replays_halve_down_to_one_step():
    pace = Pace()
    seen = []
    steps = 50
    while steps > 1:
        pace.shorten(steps)
        steps = pace.end(0, ())
        seen.append(steps)
    assert seen == [25, 12, 6, 3, 1]


@pytest.mark.parametrize(
    ("policy", "last", "step", "seconds", "due"),
    [
        ({}, 0, 0, 100.0, False),
        ({}, 0, 5, 29.9, False),
        ({}, 0, 5, 30.0, True),
        ({"every_steps": 10}, 0, 9, 0.0, False),
        ({"every_steps": 10}, 0, 10, 0.0, True),
        ({"every_steps": 10}, 10, 19, 0.0, False),
        ({"every_steps": 10}, 7, 11, 0.0, True),
        ({"every_steps": 10, "every_seconds": 1.0}, 10, 11, 1.5, True),
    ],
)
def test_a_checkpoint_is_due(tf, policy, last, step, seconds, due):
    from tapeline.train.checkpoints.disk import is_due

    assert is_due(CheckpointPolicy(**policy), last=last, step=step, seconds=seconds) is due


def test_the_newest_stay(tf, tmp_path):
    from tapeline.train.checkpoints.disk import superseded

    paths = [tmp_path / f"step-{step:012d}" for step in (5, 20, 10)]
    assert [path.name[-2:] for path in superseded(paths, 2)] == ["05"]
    assert list(superseded(paths, 3)) == []


def test_the_time_limit_counts_from_the_start():
    now = [100.0]
    limit = TimeLimit(5.0, clock=lambda: now[0])
    now[0] = 200.0
    limit(Started(step=0, total=10, steps_per_epoch=5))
    loop = {"start": 0, "total": 10, "epoch": 0, "metrics": {}, "seconds": 1.0, "examples": 1}
    now[0] = 205.0
    limit(LoopEnded(step=4, **loop))
    now[0] = 205.1
    with pytest.raises(LimitReached, match=r"train.max_time of 5 s reached at step 5 of 10; .* run again to resume"):
        limit(LoopEnded(step=5, **loop))
    limit(LoopEnded(step=10, **loop))


def test_checkpoints_are_begun_by_steps_by_time_and_never_two_at_once(tf, tmp_path):
    from tapeline.train.checkpoints.disk import Writer
    from tapeline.train.checkpoints.saving import Saving
    from tapeline.train.engine.state import State

    state, now, saved = State({"w": tf.Variable(0.0)}, ("w",), ("loss",)), [1000.0], []
    writer = Writer(tmp_path, keep=1, on_saved=lambda step, *_: saved.append(step))
    saving = Saving(CheckpointPolicy(every_steps=10), state, writer, clock=lambda: now[0])
    loop = {"start": 0, "total": 100, "epoch": 0, "metrics": {}, "seconds": 1.0, "examples": 1}

    def reach(step, seconds=0.0):
        state.step, now[0] = step, now[0] + seconds
        saving(LoopEnded(step=step, **loop))
        writer.wait()
        return saved

    assert reach(9, 29.0) == []
    assert reach(9, 1.0) == [9]  # 30 s after the beginning
    assert reach(9, 60.0) == [9]  # nothing new
    assert reach(10) == [9, 10]
    assert reach(11, 29.9) == [9, 10]  # counted from the last one
    assert reach(12, 0.1) == [9, 10, 12]
    writer.busy = True
    assert reach(25) == [9, 10, 12]
    writer.busy = False
    saving("what is not a loop")
    writer.wait()
    assert saved == [9, 10, 12]
    saving(Started(step=25, total=100, steps_per_epoch=5))
    writer.close()
    assert saved == [9, 10, 12, 25]
    assert [saving.next_stop(step) for step in (0, 9, 10, 11)] == [10, 10, 20, 20]
    assert Saving(CheckpointPolicy(), state, writer).next_stop(5) > 1 << 60
