"""The state of a run by itself: epochs become history, the best is kept, and a record that no run writes is refused."""

import numpy as np
import pytest

from tapeline.config.train import Best
from tapeline.runtime.errors import InputError


@pytest.fixture
def make(tf):
    from tapeline.train.engine.state import State

    return lambda **given: State(
        {"w": tf.Variable([1.0, 2.0]), "n": tf.Variable(3)}, ("w",), ("accuracy", "loss"), **given
    )


def table(*rows):
    """Return a loop's table: for each row the sums, with a count of two examples."""
    return np.array([[(total, 2.0) for total in row] for row in rows])


def test_whole_epochs_become_history_and_the_rest_stays(make):
    state = make(step=2)
    sums = table((1, 4), (2, 6), (0, 8))
    state.book(9, sums, 4)
    sums[:] = 7
    assert state.step == 9 and state.sums.tolist() == [[0, 2], [8, 2]]
    assert state.history == [
        {"step": 4, "epoch": 1, "accuracy": 0.5, "loss": 2.0},
        {"step": 8, "epoch": 2, "accuracy": 1.0, "loss": 3.0},
    ]
    state.book(12, table((1, 1), (0, 0)), 4)
    assert [row["step"] for row in state.history] == [4, 8, 12] and not state.sums[:, 0].any()
    assert [row["step"] for row in state.rows_since(4)] == [8, 12]
    assert (len(state.rows_since(3)), state.rows_since(12)) == (3, [])


def test_a_step_that_is_skipped_ends_its_epoch_and_counts_in_no_metric(make):
    state = make(step=2, sums=table((1, 4))[0])
    state.skip(4)
    assert (state.step, state.skipped, state.history, state.sums.tolist()) == (3, [2], [], [[1, 2], [4, 2]])
    state.skip(4)
    assert (state.step, state.skipped, state.sums.any()) == (4, [2, 3], False)
    assert state.history == [{"step": 4, "epoch": 1, "accuracy": 0.5, "loss": 2.0}]


@pytest.mark.parametrize(("mode", "sign"), [("min", 1), ("max", -1)])
def test_the_best_is_kept_and_validations_without_a_better_one_are_counted(make, mode, sign):
    state, best = make(), Best(metric="val_loss", mode=mode)
    found = []
    for number, value in enumerate((float("nan"), 3.0, 3.0, 4.0, sign * float("-inf"), 2.0, float("nan"))):
        state.step = number
        state.variables["w"].assign([number, number])
        state.history.append({"step": number})
        found.append((state.judge({"loss": sign * value}, best), (state.best or {}).get("stale")))
        assert state.history[-1].keys() == {"step", "val_loss"}
    assert found == [(False, None), (True, 0), (False, 1), (False, 2), (False, 3), (True, 0), (False, 1)]
    assert state.best == {"value": sign * 2.0, "step": 5, "stale": 1}
    assert state.best_weights["w"].numpy().tolist() == [5, 5] and state.best_weights.keys() == {"w"}
    assert state.judge({"loss": -9.0}, None) is False and state.best["step"] == 5


def test_a_snapshot_is_all_of_it_and_nothing_later_changes_it(make):
    state, other = make(step=1), make()
    state.history.append({"step": 1})
    state.judge({"loss": 1.0}, Best(metric="loss", mode="min"))
    state.skip(4)
    snapshot = state.snapshot()
    state.variables["w"].assign([9.0, 9.0])
    state.judge({"loss": 1.0}, Best(metric="loss", mode="min"))
    state.skip(4)
    other.restore(snapshot)
    assert (other.step, other.skipped, other.history) == (2, [1], [{"step": 1, "val_loss": 1.0}])
    assert other.best == {"value": 1.0, "step": 1, "stale": 0} and other.sums.shape == (2, 2)
    assert other.variables["w"].numpy().tolist() == other.best_weights["w"].numpy().tolist() == [1, 2]
    other.restore(make().snapshot())
    assert (other.best, other.best_weights, other.skipped) == (None, {}, [])


def test_what_a_checkpoint_must_hold(make):
    state = make()
    record = state.snapshot().record
    assert state.expected(record).keys() == {"state/w", "state/n"}
    best = {"value": 1, "step": 2, "stale": 0}
    assert state.expected({**record, "best": best}).keys() == {"state/w", "state/n", "best/w"}
    rows = [{"step": 4, "epoch": 1, "loss": 0.5}]
    state.expected({**record, "step": 2**63 - 1, "skipped": [0, 7], "history": rows})
    with pytest.raises(InputError, match="its record differs in best, more"):
        state.expected({**{name: value for name, value in record.items() if name != "best"}, "more": 1})
    with pytest.raises(InputError, match="its metrics are loss, accuracy, but the recipe's are accuracy, loss"):
        state.expected({**record, "metrics": ["loss", "accuracy"]})


@pytest.mark.parametrize("inside", [True, False])
def test_a_snapshot_fits_whether_validations_are_inside_a_loop_or_not(make, inside):
    plain, validated = make(), make()
    validated.metrics, validated.sums = ("accuracy", "loss", "val_loss"), np.zeros((3, 2))
    old, new = (validated, plain) if inside else (plain, validated)
    old.book(5, table(*[range(len(old.metrics))] * 2), 4)
    old.sums[2:] = 0
    snapshot = old.snapshot()
    new.expected(snapshot.record)
    new.restore(snapshot)
    assert new.sums.tolist() == [[0, 2], [1, 2], *([] if inside else [[0, 0]])]
    assert new.snapshot().record == snapshot.record and new.history == old.history


WRONG = {
    "step": [-1, 1.0, True, "1", None, 2**63],
    "metrics": ["loss", {"accuracy": 1, "loss": 2}, ["accuracy", 1], None],
    "sums": [{}, None, [[0, 0]], [[0, 0], [0]], [[0, 0], 0], [[0, 0], ["0", 0]], [[0, 0], [0, True]], [[0, 0]] * 3],
    "history": [{}, None, [[]], [{"epoch": 1}], [{"step": "1"}], [{"step": 1, "loss": None}]],
    "best": [{}, [], 0, False, {"value": 1.0}, {"value": 1.0, "step": 1, "stale": "0"}],
    "skipped": [{}, None, [-1], [0.5], [True]],
}


@pytest.mark.parametrize("part", list(WRONG))
def test_a_record_that_no_run_writes(make, part):
    state = make()
    record = state.snapshot().record
    for value in WRONG[part]:
        with pytest.raises(InputError, match=f"^its record has an invalid {part}$"):
            state.expected({**record, part: value})
            print(value)
