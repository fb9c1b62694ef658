"""Whether a flow run's process is there: it holds a lock until it ends, which the kernel frees however it ends.

begin()                     # where a flow's file is loaded: a run that a runner has started holds its lock from there
hold(project, flow_run)     # any other run, as soon as it knows its id
"""

import atexit
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tapeline.config.project import Project
from tapeline.runtime.errors import TapelineError
from tapeline.runtime.locks import is_held

FOLDER = "flow-runs"

STARTED_FOR = "PREFECT__FLOW_RUN_ID"
"""Where Prefect tells a process which run it was started for."""

MOMENT = 0.2
"""Seconds from the first look at a lock that nobody holds to the second."""

_held: dict[Path, int] = {}
"""File descriptors of this process' locks; nothing closes them, so that they last as long as the process."""


def begin() -> None:
    """Hold the lock of the run that this process was started for, before the server hears that it runs."""
    if flow_run := os.environ.get(STARTED_FOR):
        with suppress(TapelineError):  # what is wrong with the project, the run itself tells
            hold(Project.find(), flow_run)


def hold(project: Project, flow_run: str) -> None:
    """Hold the lock of a flow run until this process ends, so also while its last state is told to the server."""
    path = project.shared / FOLDER / flow_run
    if path in _held:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    if not _locked(descriptor):  # the process that started this one has it, and outlives it
        os.close(descriptor)
        return
    _held[path] = descriptor
    atexit.register(path.unlink, missing_ok=True)


def _locked(descriptor: int) -> bool:
    """Take a lock, from which somebody who only looks whether it is held may keep us for less than a moment."""
    end = time.monotonic() + MOMENT
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                return False
            time.sleep(MOMENT / 20)
        else:
            return True


def locks(project: Project) -> Iterator[tuple[str, bool]]:
    """Yield each flow run that has not ended in order, and whether its process is there.

    Looks twice: one that is just beginning takes its lock in a moment, and one that has ended meanwhile is left out.
    """
    held = {path: is_held(path) for path in sorted((project.shared / FOLDER).glob("*"))}
    if not all(held.values()):
        time.sleep(MOMENT)
    for path, at_first in held.items():
        now = at_first or is_held(path)
        if now or path.exists():
            yield path.name, now


def forget(project: Project, flow_run: str) -> None:
    """Take away the lock of a flow run that is dealt with."""
    (project.shared / FOLDER / flow_run).unlink(missing_ok=True)
