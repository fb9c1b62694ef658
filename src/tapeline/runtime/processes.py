"""How a stage behaves as a process: it dies with its parent, and has exclusive use of its checkpoints.

    python processes.py SIGNAL PARENT COMMAND...   # COMMAND gets SIGNAL when the process PARENT ends
    python processes.py -SIGNAL PARENT COMMAND...  # so does all that COMMAND has started, and SIGKILL after a while

The kernel signals a parent's death once for each of its threads: it reparents the child to the next thread that still
lives, and signals each time. Up to 7 signals in 34 ms were seen from a parent with 8 threads. A command that takes a
second signal for a user who has lost patience must not get these, so a single-threaded process, the guard, stays
between a multi-threaded parent and such a command.

This file is also run by its path, and that code needs only the standard library.
"""

import ctypes
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
PR_GET_CHILD_SUBREAPER = 37

DEATH = signal.SIGUSR1
"""The signal that tells a guard that its parent has ended; nobody else sends it."""

HEEDED = {DEATH, signal.SIGCHLD}
"""The signals that a guard waits for."""

GUARDIAN = "TAPELINE_GUARDIAN"
"""The environment variable with the id of the process that its descendants must not outlive."""

GRACE = 20.0
"""Seconds from the request to stop until SIGKILL: time for a trainer to write its checkpoint."""

POLL = 0.05
"""Seconds between two checks of processes that are ending."""


def die_with_parent(signum: int = signal.SIGTERM) -> None:
    """Ask the Linux kernel for `signum` when the parent process ends; do nothing on other systems.

    A killed DVC must not leave a trainer behind that writes to the outputs of the next one, not even a trainer that
    was just starting: the check of the guardian notices a parent that is gone already.
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


def is_leashed() -> bool:
    """Return whether this process was started on a leash, in a session of its own or of its guard."""
    guarded = os.environ.get(GUARDIAN) == str(os.getpid())
    return guarded and os.getsid(0) in (os.getpid(), os.getppid())


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it exists, and is another user's
        pass
    return True


def leashed(command: list[str], *, signum: int, parent: int) -> None:
    """Run `command`, which gets `signum` once when the process `parent` ends, and is the guardian of what it starts.

    With SIGKILL this process becomes the command: a repeated SIGKILL does no harm. Otherwise this process stays as the
    command's guard and ends with the same status. A guard reacts only to its parent's death: the command gets other
    signals itself. A negative `signum` is also for what the command has started: no process of it outlives the guard.
    """
    wait_for_children()
    os.environ.pop(GUARDIAN, None)
    if signum == signal.SIGKILL:
        die_with_parent(signum)
        _start(command, parent)
    signal.pthread_sigmask(signal.SIG_BLOCK, HEEDED)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    die_with_parent(DEATH)
    if signum < 0:
        with suppress(OSError, AttributeError):  # as above
            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)  # what loses its parent stays below this process
    _still_there(parent, command)
    guard = os.getpid()
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HEEDED)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        die_with_parent(abs(signum))
        _start(command, guard)
    _guard(child, signum)


def wait_for_children() -> None:
    """Reset SIGCHLD, so that a child's exit status can be waited for: an ignored SIGCHLD is inherited."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def restore_signals() -> None:
    """Give the signals that Python ignores their meaning again, as `subprocess` does, for another program.

    A program in a pipeline whose reader has ended would go on for ever without SIGPIPE.
    """
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)


def _still_there(parent: int, command: list[str]) -> None:
    if os.getppid() != parent:
        sys.exit(f"process {parent} has ended: not started: {' '.join(command)}")


def _start(command: list[str], parent: int) -> NoReturn:
    """Replace this process with the command."""
    _still_there(parent, command)
    os.environ[GUARDIAN] = str(os.getpid())
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    restore_signals()
    os.execvp(command[0], command)


def _guard(child: int, signum: int) -> NoReturn:
    """Pass the first `DEATH` on to the child as `signum`, and end with the child's status or signal."""
    told = False
    ended = status = 0
    while not ended:
        if signal.sigwait(HEEDED) == DEATH and not told:
            if signum < 0:
                end(below, -signum)
            else:
                os.kill(child, signum)
            told = True
        ended, status = os.waitpid(child, os.WNOHANG)
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the child's own core is the one to look at
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def can_be_subreaper() -> bool:
    """Return whether the kernel can make this process the parent of what descendants leave behind."""
    return bool(ctypes.CDLL(None).prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(ctypes.c_int()), 0, 0, 0) == 0)


@contextmanager
def subreaper() -> Iterator[None]:
    """In the block, become the parent of what descendants leave behind, such as what a child has forked.

    Not longer: nobody would wait for other processes that are left behind, and each would remain as a zombie.
    """
    libc, before = ctypes.CDLL(None), ctypes.c_int()
    libc.prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(before), 0, 0, 0)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        libc.prctl(PR_SET_CHILD_SUBREAPER, before.value, 0, 0, 0)


def end(found: Callable[[], list[int]], signum: int = signal.SIGTERM, *, grace: float = GRACE) -> None:
    """Send the processes that `found` returns a signal, wait for them, and kill those left after `grace` seconds."""
    _send(found(), signum)
    deadline = time.monotonic() + grace
    while found() and time.monotonic() < deadline:
        time.sleep(POLL)
    _send(found(), signal.SIGKILL)


def _send(processes: list[int], signum: int) -> None:
    for pid in processes:
        with suppress(ProcessLookupError, PermissionError):  # it has ended, or become another user's
            os.kill(pid, signum)


def below() -> list[int]:
    """Return the processes that this one has started, directly or not, except zombies."""
    table = _table()
    found = [os.getpid()]
    for pid in found:
        found += [other for other, (_, parent, _) in table.items() if parent == pid]
    return [pid for pid in found[1:] if table[pid][0] != "Z"]


def beside() -> list[int]:
    """Return the other processes of this one's session, except zombies and its parent, which may be its guard."""
    session, ours = os.getsid(0), {os.getpid(), os.getppid()}
    return [
        pid for pid, (state, _, theirs) in _table().items() if theirs == session and pid not in ours and state != "Z"
    ]


def _table() -> dict[int, tuple[str, int, int]]:
    """Return the state, the parent and the session of each process; nothing where there is no /proc."""
    table = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            state, parent, _, session, *_ = file.read_text("ascii", "replace").rpartition(")")[2].split()
            table[int(file.parent.name)] = state, int(parent), int(session)
    return table


MOST_REMOVED = 1000
"""How often the folder of a lock may be removed while somebody waits for the lock."""


@contextmanager
def exclusive(path: Path, *, waiting: Callable[[str], None], poll: float = 0.1) -> Iterator[None]:
    """Hold an exclusive lock on the file `path`; wait for its holder, and report once which process that is.

    The kernel releases the lock when its holder dies, however it dies. If the file is removed meanwhile, a new one is
    made. Raises `InputError` as `files.own` does.
    """
    from tapeline.runtime import files  # here: code that runs this file by its path takes no lock, and has no tapeline

    told, removed = False, 0
    while True:
        try:
            files.make_folder(path.parent)
            descriptor = files.locked(path, os.O_RDWR | os.O_CREAT)
            break
        except BlockingIOError:
            if not told:
                waiting(f"waiting for process {_holder(path)}, which holds {path}")
                told = True
            time.sleep(poll)
        except (FileNotFoundError, FileExistsError, NotADirectoryError):
            removed += 1  # its folder, as `tapeline prune` does; others who wait make it again too
            if removed > MOST_REMOVED:
                raise
    with os.fdopen(descriptor, "r+", encoding="ascii") as file:
        file.truncate()
        file.write(str(os.getpid()))
        file.flush()
        yield


def _holder(path: Path) -> str:
    """Return the process that a held lock file names, or "unknown"."""
    holder = ""
    with suppress(FileNotFoundError), path.open(encoding="ascii", errors="replace") as file:
        holder = file.read(20).strip()
    return holder if holder.isdecimal() else "unknown"


if __name__ == "__main__":
    leashed(sys.argv[3:], signum=int(sys.argv[1]), parent=int(sys.argv[2]))
