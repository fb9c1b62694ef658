"""Several files are replaced together: a kill between them is finished by the next call."""

import os
import signal
import subprocess
import sys
import time

import pytest

from tapeline.upgrade import journal

TEXTS = {f"folder {number % 3}/{number}.txt": f"{number}\n" * 1000 for number in range(200)}


def test_all_is_written_removed_and_dropped(tmp_path):
    (tmp_path / "old.py").write_text("")
    journal.write(tmp_path / "j", TEXTS, removed=["old.py", "gone.py"], restored=["not/here"])
    assert journal.is_left(tmp_path / "j") and (tmp_path / "old.py").exists()
    journal.finish(tmp_path / "j", tmp_path)
    assert not (tmp_path / "j").exists() and not (tmp_path / "old.py").exists()
    assert {path: (tmp_path / path).read_text() for path in TEXTS} == TEXTS


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9])
def test_a_kill_in_the_middle_is_finished(tmp_path, root, share):
    journal.write(tmp_path / "j", TEXTS, removed=[], restored=[])
    program = "import sys; from pathlib import Path; from tapeline.upgrade import journal; journal.finish(*map(Path, sys.argv[1:]))"
    command = [sys.executable, "-c", program, tmp_path / "j", tmp_path]
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(root / "src")})
    while process.poll() is None and sum((tmp_path / path).exists() for path in TEXTS) <= share * len(TEXTS):
        time.sleep(0.0005)
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=60)
    if journal.is_left(tmp_path / "j"):
        journal.finish(tmp_path / "j", tmp_path)
    assert {path: (tmp_path / path).read_text() for path in TEXTS} == TEXTS
