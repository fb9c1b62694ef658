"""A disk that is full, read-only, oddly named, or whose files come from the future: one line, and nothing is lost.

The disks are real: file systems in memory, mounted for the test, which only root may do.
"""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from clones import BIN, ROOT, call, cloned, environment, made, undisturbed

PIPELINE = "linear-regression"
BARE = [BIN / "dvc", "repro", f"export@{PIPELINE}"]
FLOW = [sys.executable, "-m", "flows.training", "--pipeline", PIPELINE]
TAPELINE = [sys.executable, "-m", "tapeline"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a disk"),
]


def tried(folder, *command):
    """Run what may fail, and return its status and what it said."""
    answer = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=200,
        check=False,
    )
    return answer.returncode, answer.stdout


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """The lock and the bytes of a build that nothing disturbed."""
    return undisturbed(tmp_path_factory.mktemp("undisturbed"), *BARE)


@pytest.fixture
def disk(tmp_path):
    """A clone on a disk of its own whose path has spaces and letters beyond ASCII."""
    mount = tmp_path / "Größe 100 MB, второй"
    mount.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=100m", "tmpfs", str(mount)], check=True)
    try:
        folder = cloned(ROOT, mount / "tape line")
        # Before 3.14 Python leaves a cut .pyc on a full disk and fails on it ever after (cpython#126606).
        call(folder, sys.executable, "-m", "compileall", "-q", "src", "flows")
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(mount)], check=True)


def fill(disk, *, leaving):
    """Write a file that leaves so many bytes on the disk, and return it."""
    filler = disk.parent / "filler"
    room = os.statvfs(disk.parent)
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, room.f_bavail * room.f_frsize - leaving)
    return filler


def finishes(disk, command, expected):
    call(disk, *TAPELINE, "repair")
    call(disk, *command)
    assert made(disk) == expected


def test_a_disk_that_fills_up_anywhere_on_the_way(disk, expected):
    failed = []
    for leaving in (0, 40_000, 80_000, 120_000, 200_000):
        filler = fill(disk, leaving=leaving)
        status, text = tried(disk, *BARE)
        filler.unlink()
        if status:
            # The last is DVC's word where there is no room to try a link to its cache.
            assert re.search("[Nn]o space left|disk is full|No possible cache link types", text), text
            failed.append(text)
    assert len(failed) > 1 and any("tapeline: no space left on the disk" in text for text in failed), failed
    finishes(disk, BARE, expected)


@pytest.mark.long
def test_the_flow_on_a_full_disk_says_so_and_finishes_later(disk, expected):
    call(disk, *BARE[:2], "ingest@line")
    filler = fill(disk, leaving=60_000)
    status, text = tried(disk, *FLOW)
    assert status != 0 and "Traceback" not in text, text
    assert "no space left on" in text.lower(), text  # as Tapeline or as DVC says it: outputs are small
    filler.unlink()
    finishes(disk, FLOW, expected)


@pytest.mark.long
def test_a_read_only_disk(disk, expected):
    call(disk, *BARE[:2], f"train@{PIPELINE}")
    mount = str(disk.parent)
    subprocess.run(["mount", "-o", "remount,ro", mount], check=True)
    for command, status in (([*TAPELINE, "validate", PIPELINE], 2), (BARE, 255), (FLOW, 2)):
        found, text = tried(disk, *command)
        assert found == status and "Traceback" not in text, text
        assert "ead-only file system" in text, text
    subprocess.run(["mount", "-o", "remount,rw", mount], check=True)
    finishes(disk, BARE, expected)


@pytest.mark.long
def test_a_clock_that_was_set_back(disk, expected):
    """All that a run left is a day ahead of the clock, the checkpoint of a killed training too."""
    training = subprocess.Popen(BARE, cwd=disk, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    checkpoints = disk / ".tapeline" / "checkpoints"
    end = time.monotonic() + 100
    while not list(checkpoints.rglob("fingerprint.json")):
        assert time.monotonic() < end and training.poll() is None
        time.sleep(0.05)
    training.terminate()
    training.wait(60)
    tomorrow = time.time() + 24 * 3600
    for path in sorted(Path(disk).rglob("*")):
        if ".git" not in path.relative_to(disk).parts and not path.is_symlink():
            os.utime(path, (tomorrow, tomorrow))
    finishes(disk, FLOW, expected)
    params = (disk / "params.yaml").read_text()
    (disk / "params.yaml").write_text(params.replace("learning_rate: 0.01", "learning_rate: 0.02"))
    assert f"Running stage 'train@{PIPELINE}'" in call(disk, *BARE[:2], "--dry", f"train@{PIPELINE}").stdout
