"""A checkpoint is whole or it is not used."""

import random

import numpy as np
import pytest

STEPS = (10, 20)


@pytest.fixture(scope="module")
def state(tf):
    """Two variables at a step, one of them large enough to have a body worth damaging."""
    from tapeline.train.state import State

    variables = {"w": tf.Variable(np.arange(700, dtype=np.float32)), "n": tf.Variable(3, dtype=tf.int64)}
    return State(variables, ("w",), ("loss",))


def snapshots(state, tf):
    for step in STEPS:
        state.variables["w"].assign(tf.fill([700], float(step)))
        state.step = step
        yield state.snapshot()


@pytest.fixture
def folder(state, tf, tmp_path):
    from tapeline.train import checkpoints

    for snapshot in snapshots(state, tf):
        checkpoints.write(tmp_path, snapshot)
    return tmp_path


def test_what_is_read_is_what_was_written(state, folder):
    from tapeline.train import checkpoints

    read = checkpoints.read(checkpoints.saved(folder)[0], state.expected)
    assert read.step == 20
    assert np.array_equal(read.tensors["state/w"], np.full(700, 20.0, np.float32))
    assert read.record["history"] == []


def test_the_same_state_has_the_same_bytes(state, folder, tf, tmp_path_factory):
    from tapeline.train import checkpoints

    other = tmp_path_factory.mktemp("other")
    for snapshot in snapshots(state, tf):
        checkpoints.write(other, snapshot)
    one, two = ({p.relative_to(f): p.read_bytes() for p in f.rglob("*") if p.is_file()} for f in (folder, other))
    assert one == two


def test_a_hundred_random_damages_are_never_loaded(state, folder):
    """One byte flipped, or a tail cut off, anywhere in any file of the newest: the one before is used, and it is said."""
    from tapeline.train import checkpoints

    chance = random.Random(1)
    newest = checkpoints.saved(folder)[0]
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
        snapshot = checkpoints.newest(folder, state.expected, said.append)
        assert snapshot.step == 10, (file.name, place)
        assert len(said) == 1
        assert newest.name in said[0]
        (folder / f"damaged-{newest.name}").rename(newest)
        file.write_bytes(whole)
    assert checkpoints.newest(folder, state.expected, lambda text: None).step == 20


def test_nothing_whole_is_nothing(state, tmp_path):
    from tapeline.train import checkpoints

    assert checkpoints.newest(tmp_path, state.expected, print) is None


def test_an_interrupted_write_leaves_no_checkpoint(state, tmp_path, monkeypatch):
    from tapeline.recipe import variables
    from tapeline.train import checkpoints

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(variables, "write_bundle", full)
    with pytest.raises(OSError, match="No space left"):
        checkpoints.write(tmp_path, state.snapshot())
    assert list(tmp_path.iterdir()) == []


def test_an_error_in_the_thread_is_raised_at_the_next_call(state, tmp_path):
    from tapeline.train.checkpoints import Writer

    blocked = tmp_path / "file"
    blocked.write_text("no folder can be here")
    writer = Writer(blocked, keep=2, on_saved=lambda *_: None)
    writer.start(state.snapshot())
    with pytest.raises(OSError, match="file"):
        writer.wait()


def test_a_checkpoint_is_the_state_when_it_was_asked_for(state, tf, tmp_path):
    """Writing goes on in a thread while the variables change; what is written is the snapshot."""
    from tapeline.train import checkpoints

    state.variables["w"].assign(tf.fill([700], 1.0))
    state.step = 30
    writer = checkpoints.Writer(tmp_path, keep=2, on_saved=lambda *_: None)
    writer.start(state.snapshot())
    for _ in range(200):
        state.variables["w"].assign_add(tf.ones([700]))
    writer.close()
    read = checkpoints.read(checkpoints.saved(tmp_path)[0], state.expected)
    assert np.array_equal(read.tensors["state/w"], np.ones(700, np.float32))
