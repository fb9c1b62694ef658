"""Programs on a leash: what they print, and that nothing of them stays, whatever ends them or this process."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import waiting
from surroundings import below, wait_for_none

from tapeline.runtime import leash

# As `git push` with its `ssh`: one process that the shell waits for, one whose parent has ended, one in its own session.
FAMILY = (
    "(sleep 601 & echo $! >> ids); (setsid sleep 602 & echo $! >> ids); echo $$ >> ids; touch made; sleep 603; true"
)


def run(command, folder, **options):
    return leash.run(command, cwd=folder, env=os.environ, **options)


def test_it_is_as_without_a_leash(tmp_path):
    done = run(["sh", "-c", "cat; pwd; echo no >&2; exit 3"], tmp_path, given=b"given\xff")
    assert done.args == ["sh", "-c", "cat; pwd; echo no >&2; exit 3"]
    assert (done.returncode, done.stdout, done.stderr) == (3, b"given\xff" + f"{tmp_path}\n".encode(), b"no\n")
    assert run(["sh", "-c", "kill -9 $$"], tmp_path).returncode == -signal.SIGKILL
    assert leash.text(["printf", "\\377"], cwd=tmp_path, env=os.environ).stdout == "�"


def test_what_cannot_be_started(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        run(["no-such-program"], tmp_path)
    assert caught.value.filename == "no-such-program"
    with pytest.raises(FileNotFoundError) as caught:
        run(["true"], tmp_path / "gone")
    assert caught.value.filename == tmp_path / "gone"


def test_what_takes_too_long_goes_with_all_that_it_has_started(tmp_path):
    with pytest.raises(subprocess.TimeoutExpired):
        run(["sh", "-c", FAMILY], tmp_path, timeout=1)
    assert (tmp_path / "made").exists() and below(tmp_path) == []


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_outlives_this_process(tmp_path, signum):
    code = f"""
import os
from pathlib import Path
from tapeline.runtime import leash
leash.run(["sh", "-c", {FAMILY!r}], cwd=Path(), env=os.environ)
"""
    with subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, stderr=subprocess.DEVNULL) as process:
        waiting.until((tmp_path / "made").exists, limit=60)
        process.send_signal(signum)
    assert wait_for_none(tmp_path) < leash.processes.GRACE


def test_what_ignores_a_request_is_killed(tmp_path):
    """The guard of this test has less patience than others."""
    short = tmp_path / "processes.py"
    text = Path(leash.processes.__file__).read_text()
    assert "GRACE = 20.0" in text
    short.write_text(text.replace("GRACE = 20.0", "GRACE = 0.2"))
    code = f"""
import os
from pathlib import Path
from tapeline.runtime import leash, processes
processes.__file__ = {str(short)!r}
leash.run(["sh", "-c", "trap '' TERM; {FAMILY}"], cwd=Path(), env=os.environ)
"""
    with subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path) as process:
        waiting.until((tmp_path / "made").exists, limit=60)
        process.kill()
    assert wait_for_none(tmp_path) < leash.processes.GRACE
