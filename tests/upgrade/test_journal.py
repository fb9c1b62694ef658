"""Several files are replaced together: a kill between them is finished by the next call."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tapeline.runtime.errors import InputError
from tapeline.upgrade import journal

TEXTS = {f"folder {number % 3}/{number}.txt": f"{number}\n" * 1000 for number in range(200)}


def test_all_is_written_removed_and_dropped(tmp_path):
    (tmp_path / "old.py").write_text("")
    journal.write(tmp_path / "j", tmp_path, TEXTS, removed=["old.py", "gone.py"], restored=["not/here"])
    assert journal.is_left(tmp_path / "j") and (tmp_path / "old.py").exists()
    journal.finish(tmp_path / "j", tmp_path)
    assert not (tmp_path / "j").exists() and not (tmp_path / "old.py").exists()
    assert {path: (tmp_path / path).read_text() for path in TEXTS} == TEXTS


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9])
def test_a_kill_in_the_middle_is_finished(tmp_path, root, share):
    journal.write(tmp_path / "j", tmp_path, TEXTS, removed=[], restored=[])
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


@pytest.mark.parametrize("path", ["edited", "written", "removed"])
def test_what_was_edited_since_is_kept(tmp_path, path):
    """The next call may be weeks later."""
    for name in ("edited", "removed"):
        (tmp_path / name).write_text("old")
    texts = {"edited": "new", "written": "new"}
    journal.write(tmp_path / "j", tmp_path, texts, removed=["removed"], restored=[])
    (tmp_path / path).write_text("mine")
    before = {file: file.read_bytes() for file in tmp_path.iterdir() if file.is_file()}
    with pytest.raises(InputError, match=f"{path} has changed since an upgrade was killed .*: remove {tmp_path / 'j'}"):
        journal.finish(tmp_path / "j", tmp_path)
    assert {file: file.read_bytes() for file in tmp_path.iterdir() if file.is_file()} == before


def test_a_journal_of_an_older_version_is_refused(tmp_path):
    """It does not tell what was there before."""
    journal.write(tmp_path / "j", tmp_path, TEXTS, removed=[], restored=[])
    index = json.loads((tmp_path / "j" / journal.INDEX).read_text())
    del index["before"]
    (tmp_path / "j" / journal.INDEX).write_text(json.dumps(index))
    with pytest.raises(InputError, match="an upgrade by an older version was killed while it wrote: remove"):
        journal.finish(tmp_path / "j", tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["j"]
