"""Run a program that may take long, and leave nothing of it behind, however this process ends.

    done = leash.run([sys.executable, "-m", "dvc", "push"], cwd=folder, env=environment())

As `subprocess.run`, which leaves the program alone when this process is killed, and what the program has started (the
`ssh` of `git push`) when it is interrupted or has no more time.
"""

import errno
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tapeline.runtime import processes


def launcher(signum: int) -> list[str]:
    """Return the start of a command line; the program behind it gets `signum` when the calling thread ends.

    A negative `signum` is also for what the program has started. The bare interpreter takes 15 ms until it starts it.
    """
    return [sys.executable, "-I", "-S", processes.__file__, str(int(signum)), str(os.getpid())]


def run(
    command: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout: float | None = None, given: bytes = b""
) -> "subprocess.CompletedProcess[bytes]":
    """Return how a command ended and what it printed. given: what it reads; timeout: in seconds.

    Raises `OSError` if it cannot be started, and `subprocess.TimeoutExpired`.
    """
    if not shutil.which(command[0], path=env.get("PATH")):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), command[0])
    with subprocess.Popen(
        [*launcher(-signal.SIGTERM), *command],
        cwd=cwd,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            out, said = process.communicate(given, timeout)
        except BaseException:
            process.send_signal(processes.DEATH)
            raise
    return subprocess.CompletedProcess(command, process.returncode, out, said)


def text(
    command: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout: float | None = None
) -> "subprocess.CompletedProcess[str]":
    """Return the same with the output as text."""
    done = run(command, cwd=cwd, env=env, timeout=timeout)
    out, said = (stream.decode("utf-8", "replace") for stream in (done.stdout, done.stderr))
    return subprocess.CompletedProcess(done.args, done.returncode, out, said)
