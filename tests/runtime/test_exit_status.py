"""How a command ends: one line for what may happen, a traceback for what may not."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import errno, signal, sys
from functools import partial
from tapeline.runtime import exit_status
from tapeline.runtime.errors import InputError, Interrupted, RunError
from tapeline.runtime.interruption import interrupt
def action():
    print("buffered")
    {action}
    return 3
sys.exit(exit_status.of("it", action, advice="; again"))
"""


def ended(root, action, out=subprocess.PIPE):
    command = [sys.executable, "-P", "-c", PROGRAM.format(action=action)]
    done = subprocess.run(
        command,
        env={"PYTHONPATH": str(root / "src")},
        stdout=out,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=60,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("action", "status", "line"),
    [
        ("raise InputError('a\\nb')", 2, "it: a b"),
        ("raise RunError('no')", 1, "it: no"),
        ("signal.signal(15, interrupt); signal.raise_signal(15)", 128 + signal.SIGTERM, "it: stopped by SIGTERM"),
        (
            "signal.signal(15, partial(interrupt, advice='; again')); signal.raise_signal(15)",
            128 + signal.SIGTERM,
            "it: stopped by SIGTERM; again",
        ),
        ("signal.raise_signal(2)", 128 + signal.SIGINT, "it: stopped by SIGINT; again"),
        ("raise OSError(errno.EROFS, 'x', 'file')", 2, "it: not writable or readable (file): Read-only file system"),
        (
            "raise OSError(errno.ENOSYS, 'x', 'file')",
            1,
            "it: the disk lacks what Tapeline needs, perhaps locks (file): Function not implemented; use another one",
        ),
        ("sys.stdout.flush()", 1, "it: no space left on the disk: free some and run again"),
    ],
)
def test_an_expected_failure_is_one_line(root, action, status, line):
    with Path("/dev/full" if "flush" in action else "/dev/null").open("w") as out:
        assert ended(root, action, out) == (status, f"{line}\n")


def test_else_the_action_s_own_status_counts(root):
    assert ended(root, "pass") == (3, "")


def test_what_is_no_expected_failure_is_not_hidden(root):
    status, said = ended(root, "raise BlockingIOError(errno.EAGAIN, 'not now')")
    assert (status, said.splitlines()[0]) == (1, "Traceback (most recent call last):")
