"""A checkpoint is whole or it is not used."""

import errno
import os
import random

import numpy as np
import pytest
from disks import files_of_at_most

from tapeline.runtime.errors import RunError

STEPS = (10, 20)


@pytest.fixture(scope="module")
def state(tf):
    """Two variables at a step, one of them large enough to have a body worth damaging."""
    from tapeline.train.engine.state import State

    variables = {"w": tf.Variable(np.arange(700, dtype=np.float32)), "n": tf.Variable(3, dtype=tf.int64)}
    return State(variables, ("w",), ("loss",))


def snapshots(state, tf):
    for step in STEPS:
        state.variables["w"].assign(tf.fill([700], float(step)))
        state.step = step
        yield state.snapshot()


@pytest.fixture
def folder(state, tf, tmp_path):
    from tapeline.train.checkpoints import disk

    for snapshot in snapshots(state, tf):
        disk.write(tmp_path, snapshot)
    return tmp_path


def test_what_is_read_is_what_was_written(state, folder):
    from tapeline.train.checkpoints import disk

    read = disk.read(disk.saved(folder)[0], state.expected)
    assert read.step == 20
    assert np.array_equal(read.tensors["state/w"], np.full(700, 20.0, np.float32))
    assert read.record["history"] == []


def test_a_validation_may_measure_what_json_lacks(tf, tmp_path):
    from tapeline.train.checkpoints import disk
    from tapeline.train.engine.state import State

    state = State({"w": tf.Variable(1.0)}, ("w",), ("loss",), step=4)
    measured = {"nan": float("nan"), "much": float("inf"), "little": -float("inf"), "tenth": 0.1, "none": -0.0}
    state.history.append({"step": 4, "epoch": 1, "loss": 0.5})
    state.judge(measured, None)
    read = disk.read(disk.write(tmp_path, state.snapshot()), state.expected)
    assert repr(sorted(read.record["history"][0].items())) == repr(sorted(state.history[0].items()))


def test_the_same_state_has_the_same_bytes(state, folder, tf, tmp_path_factory):
    from tapeline.train.checkpoints import disk

    other = tmp_path_factory.mktemp("other")
    for snapshot in snapshots(state, tf):
        disk.write(other, snapshot)
    one, two = ({p.relative_to(f): p.read_bytes() for p in f.rglob("*") if p.is_file()} for f in (folder, other))
    assert one == two


def test_a_hundred_random_damages_are_never_loaded(state, folder):
    """One byte flipped, or a tail cut off, anywhere in any file of the newest: the one before is used, and it is said."""
    from tapeline.train.checkpoints import disk

    chance = random.Random(1)
    newest = disk.saved(folder)[0]
    files = sorted(newest.iterdir())
    for number in range(100):
        file = chance.choice(files)
        whole = file.read_bytes()
        place = chance.randrange(len(whole))
        if number % 2:
            file.write_bytes(whole[:place] + bytes([whole[place] ^ (1 << chance.randrange(8))]) + whole[place + 1 :])
        else:
            file.write_bytes(whole[:place])
        said = []
        snapshot = disk.newest(folder, state.expected, said.append)
        assert snapshot.step == 10, (file.name, place)
        assert len(said) == 1
        assert newest.name in said[0]
        (folder / f"damaged-{newest.name}").rename(newest)
        file.write_bytes(whole)
    assert disk.newest(folder, state.expected, lambda text: None).step == 20


def test_nothing_whole_is_nothing(state, tmp_path):
    from tapeline.train.checkpoints import disk

    assert disk.newest(tmp_path, state.expected, print) is None


def test_an_interrupted_write_leaves_no_checkpoint(state, tmp_path, monkeypatch):
    from tapeline.recipe import bundles
    from tapeline.train.checkpoints import disk

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(bundles, "write", full)
    with pytest.raises(OSError, match="No space left"):
        disk.write(tmp_path, state.snapshot())
    assert list(tmp_path.iterdir()) == []


def test_an_error_in_the_thread_is_raised_at_the_next_call(state, tmp_path):
    from tapeline.train.checkpoints.disk import Writer

    blocked = tmp_path / "file"
    blocked.write_text("no folder can be here")
    writer = Writer(blocked, keep=2, on_saved=lambda *_: None)
    writer.start(state.snapshot())
    with pytest.raises(OSError, match="file"):
        writer.wait()


def test_a_checkpoint_is_the_state_when_it_was_asked_for(state, tf, tmp_path):
    """Writing goes on in a thread while the variables change; what is written is the snapshot."""
    from tapeline.train.checkpoints import disk

    state.variables["w"].assign(tf.fill([700], 1.0))
    state.step = 30
    writer = disk.Writer(tmp_path, keep=2, on_saved=lambda *_: None)
    writer.start(state.snapshot())
    for _ in range(200):
        state.variables["w"].assign_add(tf.ones([700]))
    writer.close()
    read = disk.read(disk.saved(tmp_path)[0], state.expected)
    assert np.array_equal(read.tensors["state/w"], np.ones(700, np.float32))


def test_a_disk_that_refuses_a_checkpoint_is_said_and_tried_again(state, tmp_path):
    from tapeline.config.train import CheckpointPolicy
    from tapeline.runtime.records import Started
    from tapeline.train.checkpoints import disk
    from tapeline.train.checkpoints.saving import Saving

    now, said, stood = 0.0, [], []
    state.step = 0
    writer = disk.Writer(
        tmp_path, keep=2, on_saved=lambda step, *_: stood.append(step), on_failed=said.append
    )  # fmt: skip
    saving = Saving(CheckpointPolicy(every_steps=10), state, writer, clock=lambda: now)

    def reach(step, at):
        nonlocal now
        state.step, now = step, at
        saving(Started(step=step, total=99, steps_per_epoch=9))
        writer.wait()

    reach(10, 0.1)
    with files_of_at_most(1000):
        reach(20, 0.2)
        reach(30, 1.1)
        reach(31, 1.3)
    assert [text.split(" (")[0] for text in said] == [
        f"the checkpoint of step {step} could not be written" for step in (20, 31)
    ]
    assert "File too large): the checkpoint of step 10 remains; training continues; next attempt in 1 s" in said[0]
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000000010"], "the half is gone"
    reach(32, 3.2)
    assert stood == [10]
    reach(33, 3.4)
    reach(34, 9.0)
    assert stood == [10, 33], "after a success the policy decides again"
    assert not writer.failures
    writer.close()


def test_what_ends_a_run_says_which_checkpoint_stands(state, tmp_path):
    from tapeline.runtime.errors import Interrupted, LimitReached
    from tapeline.train.checkpoints.disk import SAVED, Writer

    writer = Writer(tmp_path, keep=2, on_saved=lambda *_: None)
    with files_of_at_most(1000):
        writer.write_last(state.snapshot())
    error = writer.truthful(Interrupted(f"stopped at step 7 of 9; {SAVED}", signum=15))
    assert (
        str(error)
        == "stopped at step 7 of 9; its checkpoint could not be written (File too large): there is no earlier one"
    )
    assert error.status == 143
    assert "there is no earlier one: run again" in str(writer.truthful(LimitReached(f"over; {SAVED}: run again")))
    assert not list(tmp_path.iterdir())
    writer.close()


def test_what_a_hook_raises_is_not_taken_for_the_disk_s(state, tmp_path):
    from tapeline.train.checkpoints.disk import Writer, saved

    def hook(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    failed = []
    writer = Writer(tmp_path, keep=2, on_saved=hook, on_failed=failed.append)
    writer.start(state.snapshot())
    with pytest.raises(OSError, match="No space left"):
        writer.wait()
    assert not failed and len(saved(tmp_path)) == 1
    with pytest.raises(OSError, match="No space left"):
        writer.write_last(state.snapshot())
    assert writer.unsaved == ""
    writer.close()


def test_a_killed_writer_keeps_no_room(state, folder):
    from tapeline.train.checkpoints import disk

    half = folder / ".step-000000000030.1.partial"
    half.mkdir()
    (half / "state.index").touch()
    disk.remove_partial(folder)
    assert sorted(path.name for path in folder.iterdir()) == ["step-000000000010", "step-000000000020"]


@pytest.mark.parametrize(
    ("variables", "metrics", "said"),
    [
        ({"w": [700]}, ("loss",), "has state/n, which the recipe lacks"),
        ({"w": [700], "n": [], "new": []}, ("loss",), "lacks state/new, which the recipe has"),
        ({"w": [699], "n": []}, ("loss",), r"state/w is float32\[700\], the recipe's is float32\[699\]"),
        ({"w": [700], "n": []}, ("loss", "x"), "its metrics are loss, but the recipe's are loss, x"),
    ],
)
def test_a_whole_checkpoint_that_does_not_fit_is_refused_and_stays(folder, tf, variables, metrics, said):
    from tapeline.runtime.errors import InputError
    from tapeline.train.checkpoints import disk
    from tapeline.train.engine.state import State

    types = {name: tf.int64 if name == "n" else tf.float32 for name in variables}
    other = State({n: tf.Variable(tf.zeros(s, types[n])) for n, s in variables.items()}, ("w",), metrics)
    before = sorted(folder.iterdir())
    with pytest.raises(InputError, match=f"{said}: start at step 0 with --fresh"):
        disk.newest(folder, other.expected, print)
    assert sorted(folder.iterdir()) == before


def test_all_are_damaged(state, folder):
    from tapeline.train.checkpoints import disk

    for path in disk.saved(folder):
        (path / "manifest").write_bytes(b"")
    said = []
    assert disk.newest(folder, state.expected, said.append) is None
    assert said[-1].endswith("all 2 are damaged")


@pytest.mark.parametrize("shape", [None, [None, 3]])
def test_a_variable_of_unknown_shape_is_restored(tf, tmp_path, shape):
    from tapeline.train.checkpoints import disk
    from tapeline.train.engine.state import State

    def state(rows):
        value = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)
        return State({"w": tf.Variable(value, shape=tf.TensorShape(shape))}, ("w",), ("loss",))

    one, other = state(4), state(1)
    disk.write(tmp_path, one.snapshot())
    other.restore(disk.newest(tmp_path, other.expected, print))
    assert np.array_equal(other.variables["w"].read_value(), one.variables["w"].read_value())


def test_each_damaged_checkpoint_of_a_step_is_put_aside_under_a_name_of_its_own(state, tf, tmp_path):
    from tapeline.train.checkpoints import disk

    said = []
    for _ in range(24):
        state.step = 10
        path = disk.write(tmp_path, state.snapshot())
        (path / "manifest").write_text("")
        assert disk.newest(tmp_path, state.expected, said.append) is None
    damaged = {f"damaged-step-000000000010{ending}" for ending in ("", *(f".{number}" for number in range(2, 25)))}
    assert {path.name for path in tmp_path.iterdir()} == damaged
    assert sum("ignoring a damaged checkpoint" in text for text in said) == 24
    disk.write(tmp_path, state.snapshot())
    disk.remove_all(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "body",
    [b"", b"\xff", b"{", b"[]", b"{}", b'{"files": {}}', b'{"files": {}, "record": 1}', b'{"files": [], "record": {}}'],
)
def test_a_manifest_that_was_never_written_is_damaged_although_its_checksum_is_right(state, folder, body):
    from hashlib import sha256

    from tapeline.train.checkpoints import disk

    path = disk.saved(folder)[0]
    (path / "manifest").write_bytes(sha256(body).hexdigest().encode() + b"\n" + body)
    with pytest.raises(disk.Damaged, match="the manifest is invalid"):
        disk.read(path, state.expected)


def test_the_end_of_a_run_takes_the_place_of_checkpoints_and_of_the_end_before(state, tf, tmp_path):
    from tapeline.runtime.errors import InputError
    from tapeline.train.checkpoints import disk

    one, two = tmp_path / "one", tmp_path / "two"
    assert not disk.any_saved(one) and disk.final(one, state.expected, remedy="x") is None
    for folder in (one, two):
        for snapshot in snapshots(state, tf):
            disk.write(folder, snapshot)
        (folder / "damaged-step-000000000005").mkdir()
        assert disk.any_saved(folder)
        disk.keep_final(folder, snapshot)
        assert [path.name for path in folder.iterdir()] == ["final-000000000020"]
        assert not disk.saved(folder) and disk.any_saved(folder)
    assert list(one.iterdir()) == [] and not disk.any_saved(one)
    assert disk.final(two, state.expected, remedy="x").step == 20
    (two / "final-000000000020" / "manifest").write_bytes(b"")
    with pytest.raises(InputError, match="the end of the shorter run is damaged: .*: the manifest is incomplete: x$"):
        disk.final(two, state.expected, remedy="x")
    disk.keep_final(two, snapshot)
    assert disk.final(two, state.expected, remedy="x").step == 20, "a damaged one does not stay"


def test_the_end_of_a_run_that_another_process_is_reading_is_left(state, tmp_path):
    from tapeline.runtime import processes
    from tapeline.train.checkpoints import disk

    one, two = tmp_path / "one", tmp_path / "two"
    disk.keep_final(one, state.snapshot())
    with processes.exclusive(one / disk.LOCK, waiting=print):
        disk.keep_final(two, state.snapshot())
        assert disk.final(one, state.expected, remedy="x")
    disk.keep_final(two, state.snapshot())
    assert not disk.any_saved(one) and disk.any_saved(two)


def test_a_step_is_written_once(state, folder):
    from tapeline.train.checkpoints import disk

    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    state.step = 20
    assert disk.write(folder, state.snapshot()).name == "step-000000000020"
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


@pytest.mark.parametrize("keep", [1, 2])
def test_only_the_newest_are_kept(state, tf, tmp_path, keep):
    from tapeline.train.checkpoints import disk

    writer = disk.Writer(tmp_path, keep=keep, on_saved=lambda *_: None)
    for snapshot in snapshots(state, tf):
        writer.write_last(snapshot)
    assert [path.name for path in disk.saved(tmp_path)] == ["step-000000000020", "step-000000000010"][:keep]


def test_what_failed_is_said_where_nothing_can_be_removed_after_it(state, tmp_path):
    """The folder is a file, so the partial checkpoint in it cannot be removed either."""
    from tapeline.train.checkpoints import disk

    blocked = tmp_path / "a file"
    blocked.write_text("")
    with pytest.raises(NotADirectoryError) as caught:
        disk.write(blocked, state.snapshot())
    assert caught.value.filename == str(blocked)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(28, "No space left on device"), "No space left on device"),
        (OSError("odd"), "odd"),
        (RunError("why"), "why"),
    ],
)
def test_the_reason_of_a_failed_checkpoint(tf, error, reason):
    from tapeline.train.checkpoints import disk

    assert disk._reason(error) == reason


def test_a_failing_disk_is_tried_again_later_and_later(tf):
    from tapeline.train.checkpoints.disk import pause

    assert [pause(failures) for failures in (1, 2, 3, 9, 10, 10**6)] == [1, 2, 4, 256, 300, 300]


def test_the_writer_is_busy_while_it_writes(state, tmp_path):
    from tapeline.train.checkpoints import disk

    seen = []
    writer = disk.Writer(tmp_path, keep=1, on_saved=lambda *_: seen.append(writer.busy))
    with writer._lock:  # as a write in another thread holds it
        writer.start(state.snapshot())
        assert writer.busy
    writer.close()
    assert not writer.busy and seen == [False]


@pytest.mark.timeout(200)
def test_what_is_no_folder_in_the_place_of_a_checkpoint(state, folder, tf, tmp_path_factory):
    """A FIFO, and a link to a folder elsewhere: neither is waited for, read or followed, and `--fresh` removes them."""
    from tapeline.train.checkpoints import disk

    victim = tmp_path_factory.mktemp("victim")
    (victim / "a").write_text("as it was")

    for name in ("step-0000000000", "damaged-step-"):
        os.mkfifo(folder / f"{name}01")
        (folder / f"{name}02").symlink_to(victim)
    os.mkfifo(folder / ".step-1.partial")
    (folder / ".step-2.partial").symlink_to(victim)
    os.mkfifo(folder / "step-000000000020" / "more")
    said = []
    assert disk.newest(folder, state.expected, said.append).step == 10
    assert [line for line in said if "more is a FIFO" in line]
    disk.remove_partial(folder)
    writer = disk.Writer(folder, keep=1, on_saved=lambda *_: None)
    writer.write_last(next(snapshots(state, tf)))
    disk.remove_all(folder)
    writer.close()
    assert list(folder.iterdir()) == [] and (victim / "a").read_text() == "as it was"
