"""Temporary folders go with their block, or with the next process; a living process keeps its own."""

import os
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tapeline.runtime import scratch

WAITS = """
import sys, time
from tapeline.runtime import scratch

with scratch.folder("predict") as folder:
    (folder / "model").write_text("large")
    print(folder, flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """Return where this user's folders are; the process's temporary folder is the test's own."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path / f"tapeline-{os.geteuid()}"


@pytest.fixture
def waiting():
    """A process that has a folder; and the folder."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", WAITS], env=environment, stdout=subprocess.PIPE, text=True) as child:
        yield child, Path(child.stdout.readline().strip())
        child.kill()


def test_a_folder_goes_with_its_block(place):
    with pytest.raises(KeyError), scratch.folder("predict") as folder:
        assert folder.parent == place and folder.name.startswith("predict-") and list(folder.iterdir()) == []
        assert stat.S_IMODE(place.lstat().st_mode) == stat.S_IMODE(folder.lstat().st_mode) == 0o700
        (folder / "x").touch()
        raise KeyError
    assert list(place.iterdir()) == []


def test_what_a_killed_process_has_left_goes_and_that_of_a_living_one_stays(place, waiting):
    child, folder = waiting
    with scratch.folder("assess") as mine:
        assert (folder / "model").exists() and mine != folder
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert (folder / "model").exists(), "nobody was there to remove it"
    with scratch.folder("predict") as mine:
        assert sorted(path.name for path in place.iterdir()) == [mine.name, f"{mine.name}.lock"]
    assert list(place.iterdir()) == []


@pytest.mark.timeout(60)
def test_odd_things_among_them(place, tmp_path):
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "a").touch()
    place.mkdir(mode=0o700)
    os.mkfifo(place / "a.lock")
    (place / "b.lock").symlink_to(victim / "a")
    (place / "c.lock").touch()
    (place / "c").symlink_to(victim)
    (place / "d.lock").mkdir()
    with scratch.folder("predict"):
        assert not os.path.lexists(place / "c") and not (place / "c.lock").exists()
    assert (victim / "a").exists() and {"a.lock", "b.lock", "d.lock"} <= {path.name for path in place.iterdir()}


@pytest.mark.parametrize("made", ["open to others", "a link", "a file"])
def test_a_place_that_is_not_ours_alone_is_not_used(place, tmp_path, made):
    """Another user of this machine may be first to take the name."""
    if made == "a link":
        (tmp_path / "victim").mkdir(mode=0o700)
        place.symlink_to(tmp_path / "victim")
    elif made == "a file":
        place.touch()
    else:
        place.mkdir()
        place.chmod(0o770)
    with scratch.folder("predict") as folder:
        assert folder.parent == tmp_path and stat.S_IMODE(folder.lstat().st_mode) == 0o700
    assert not folder.exists() and (place.is_file() or list(place.iterdir()) == [])
