"""How a stage behaves as a process: it dies with its parent, and it is alone on its checkpoints."""

import ctypes
import fcntl
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Ask the Linux kernel for SIGTERM when the parent process ends; elsewhere do nothing.

    A DVC that is killed must not leave a trainer behind that writes to the outs of the next one.
    """
    parent = os.getppid()
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    except (OSError, AttributeError):
        return
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGTERM)


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
