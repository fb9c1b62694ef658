"""Lock files that may be held: the kernel releases a lock when its holder ends, however it ends."""

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from tapeline.runtime import files


def is_held(path: Path) -> bool:
    """Return whether a living process holds the lock on a file; nobody holds a missing file.

    Another user's file that cannot be read counts as held. Raises `InputError` as `files.own` does.
    """
    try:
        with os.fdopen(_opened(path)) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return True
    except FileNotFoundError:
        pass
    return False


def remove_unheld(path: Path) -> None:
    """Remove a lock file unless a living process holds it, or it is missing, or another user's.

    Whoever waits for it meanwhile makes a new one. Raises `InputError` as `files.own` does.
    """
    with suppress(BlockingIOError, FileNotFoundError, PermissionError):
        descriptor = files.locked(path, os.O_RDWR)
        try:
            path.unlink()
        finally:
            os.close(descriptor)


def _opened(path: Path) -> int:
    """Return a descriptor for a lock: to write, which a lock needs on a network's disk, or else only to read."""
    try:
        return files.own(path, os.O_RDWR)
    except PermissionError:
        return files.own(path, os.O_RDONLY)
