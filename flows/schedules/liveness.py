"""Whether a flow run's process is there: it holds a lock, which the kernel frees when it ends, however it ends.

with alive(project, flow_run_id):
    ...
"""

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tapeline.locks import is_held
from tapeline.project import Project

FOLDER = "flow-runs"

MOMENT = 0.2
"""Seconds from the first look at a lock that nobody holds to the second."""


@contextmanager
def alive(project: Project, flow_run: str) -> Iterator[None]:
    """Hold the lock of a flow run."""
    path = project.shared / FOLDER / flow_run
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


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
