"""How a stage behaves as a process: it dies with its parent, and it is alone on its checkpoints.

    python processes.py SIGNAL PARENT COMMAND...   # COMMAND gets SIGNAL when the process PARENT ends

This file is run by its path as well, so that it imports the standard library only.
"""

import ctypes
import fcntl
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

PR_SET_PDEATHSIG = 1

GUARDIAN = "TAPELINE_GUARDIAN"
"""The environment variable with the process that whatever it started must not outlive."""


def die_with_parent(signum: int = signal.SIGTERM) -> None:
    """Ask the Linux kernel for `signum` when the parent process ends; elsewhere do nothing.

    A DVC that is killed must not leave a trainer behind that writes to the outs of the next one, nor one
    that was just starting: a parent that is gone already is noticed by the guardian that it was.
    """
    parent = os.getppid()
    guardian = int(os.environ.get(GUARDIAN, parent))
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(PR_SET_PDEATHSIG, signum)
    except (OSError, AttributeError):
        return
    if os.getppid() != parent or not _exists(guardian):
        os.kill(os.getpid(), signum)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it exists, and is another user's
        pass
    return True


def leashed(command: list[str], *, signum: int, parent: int) -> None:
    """Become `command`, which gets `signum` when the process `parent` ends, and is the guardian of what it starts."""
    os.environ.pop(GUARDIAN, None)
    die_with_parent(signum)
    if os.getppid() != parent:
        sys.exit(f"process {parent} is gone: not started: {' '.join(command)}")
    os.environ[GUARDIAN] = str(os.getpid())
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.execvp(command[0], command)


@contextmanager
def exclusive(path: Path, *, waiting: Callable[[str], None], poll: float = 0.1) -> Iterator[None]:
    """Hold an exclusive lock on the file `path`; wait for a holder and say once for whom.

    The kernel frees the lock when its holder dies, however it dies.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as file:
        told = False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not told:
                    file.seek(0)
                    waiting(f"waiting for process {file.read().strip() or 'unknown'}, which holds {path}")
                    told = True
                time.sleep(poll)
        file.seek(0)
        file.truncate()
        file.write(str(os.getpid()))
        file.flush()
        yield


if __name__ == "__main__":
    leashed(sys.argv[3:], signum=int(sys.argv[1]), parent=int(sys.argv[2]))
