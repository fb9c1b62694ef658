"""Checkpoints go as a whole: not under whoever takes their lock meanwhile."""

import shutil
import threading
import time

import pytest

from tapeline.repository.retention.checkpoints import checkpoint_folders
from tapeline.repository.retention.copies import model_copies
from tapeline.repository.retention.item import DAY, Limits
from tapeline.runtime import processes


@pytest.mark.timeout(60)
def test_whoever_takes_the_lock_while_checkpoints_go_finds_none_of_them(tmp_path):
    state, found = tmp_path / "one" / "aa", []
    for step in range(3):
        (state / f"step-{step}").mkdir(parents=True)
        for part in range(300):
            (state / f"step-{step}" / str(part)).touch()
    (state / "lock").touch()
    item = next(checkpoint_folders(tmp_path, pipelines=(), limits=Limits(), now=time.time() + 100 * DAY))

    def train():
        while (state / "lock").exists():
            pass
        with processes.exclusive(state / "lock", waiting=print, poll=0.001):
            found.extend(path.name for path in state.iterdir())
            time.sleep(0.1)

    trainer = threading.Thread(target=train)
    trainer.start()
    assert item.remove()
    trainer.join()
    assert found == ["lock"]
    assert [path.name for path in state.parent.iterdir()] == ["aa"]


def test_what_a_killed_removal_left_is_not_the_newest_and_what_has_gone_is_no_error(tmp_path):
    step = tmp_path / "one" / ".aa.old.partial" / "step-7"
    step.mkdir(parents=True)
    copy = tmp_path / "copies" / f".{'1' * 32}.partial"
    copy.mkdir(parents=True)
    limits, now = Limits(), time.time() + 2 * DAY
    checkpoints = next(checkpoint_folders(tmp_path, pipelines=("one",), limits=limits, now=now))
    copied = next(model_copies(tmp_path / "copies", limits=limits, now=now))
    assert not checkpoints.kept and not copied.kept
    for folder in (step.parent, copy):
        shutil.rmtree(folder)
    assert checkpoints.remove() is True and copied.remove() is True
