"""Whether a flow run's process is alive: it holds a lock, which the kernel releases however the process ends.

begin()                     # when a flow's file is loaded: a run started by a runner holds its lock from then on
hold(project, flow_run)     # any other run, as soon as it knows its id
"""

import atexit
import os
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil

from tapeline.config.project import Project
from tapeline.runtime import files
from tapeline.runtime.errors import TapelineError
from tapeline.runtime.locks import MOMENT, is_held, take

FOLDER = "flow-runs"

STARTED_FOR = "PREFECT__FLOW_RUN_ID"
"""The variable with which Prefect tells a process which run it was started for."""

_held: dict[Path, int] = {}
"""File descriptors of this process's locks; never closed, so that they last as long as the process."""

_is_told: dict[Path, Callable[[], bool]] = {}
"""Whether the server knows how the runs of this process have ended."""


def begin() -> None:
    """Hold the lock of the run that this process was started for, before the run is reported as running."""
    if flow_run := os.environ.get(STARTED_FOR):
        with suppress(TapelineError, OSError):  # the run itself reports what is wrong with the project
            hold(Project.find(), flow_run)


def hold(project: Project, flow_run: str, is_told: Callable[[], bool] | None = None) -> None:
    """Hold the lock of a flow run until this process ends, and so also while its final state is reported.

    is_told: whether the server has taken how the run ended, asked when the process ends.
    """
    path = project.shared / FOLDER / flow_run
    if is_told:
        _is_told[path] = is_told
    if path in _held:
        return
    files.make_folder(path.parent)
    descriptor = files.own(path, os.O_RDWR | os.O_CREAT)
    if not take(descriptor, patience=MOMENT):  # the process that started this one has it, and outlives it
        os.close(descriptor)
        return
    _held[path] = descriptor
    atexit.register(_let_go, path)


def _let_go(path: Path) -> None:
    """Remove a lock, unless the server was never told how the run ended: then whoever finds it marks the run."""
    if _is_told.get(path, lambda: True)():
        path.unlink(missing_ok=True)


def locks(project: Project) -> Iterator[tuple[str, bool]]:
    """Yield each flow run that has not ended cleanly, and whether its process is alive.

    Checks twice: a run that is just beginning may not hold its lock yet, and one that ends meanwhile is left out.
    """
    held = {path: is_held(path) for path in sorted((project.shared / FOLDER).glob("*"))}
    if not all(held.values()):
        time.sleep(MOMENT)
    for path, at_first in held.items():
        now = at_first or is_held(path)
        if now or path.exists():
            yield path.name, now


def started_here() -> set[str]:
    """Return the flow runs for which a process of this user has been started, such as one that is still importing."""
    found = set()
    for process in psutil.process_iter():
        with suppress(psutil.Error):  # another user's, or one that has ended
            found.add(process.environ().get(STARTED_FOR, ""))
    return found


def forget(project: Project, flow_run: str) -> None:
    """Remove the lock of a flow run that has been handled."""
    (project.shared / FOLDER / flow_run).unlink(missing_ok=True)
