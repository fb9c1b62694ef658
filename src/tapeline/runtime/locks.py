"""Lock files that may be held: the kernel releases a lock when its holder ends, however it ends."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from tapeline.runtime import files

MOMENT = 0.2
"""Seconds within which a lock is free that somebody only looks at."""


def take(descriptor: int, kind: int = fcntl.LOCK_EX, *, patience: float = 0.0) -> bool:
    """Take the lock of an open file, and return whether that worked; try again for `patience` seconds."""
    end = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= end:
                return False
            time.sleep(patience / 20)


def is_held(path: Path) -> bool:
    """Return whether a living process holds the lock on a file; nobody holds a missing file.

    Another user's file that cannot be read counts as held. Raises `InputError` as `files.own` does.
    """
    with unless_held(path) as free:
        return not free


@contextmanager
def unless_held(path: Path, *, make: bool = False) -> Iterator[bool]:
    """Yield whether nobody holds the lock on a file, which is then held here; otherwise as `is_held`.

    make: whether to make a file that is missing, without which nothing is held. Raises `FileNotFoundError` then if its
    folder is missing.
    """
    with ExitStack() as stack:
        free = True
        try:
            stack.enter_context(os.fdopen(_locked(path, os.O_CREAT if make else 0)))
        except (BlockingIOError, PermissionError):
            free = False
        except FileNotFoundError:
            if make:
                raise
        yield free


def remove_unheld(path: Path) -> None:
    """Remove a lock file unless a living process holds it, or it is missing, or another user's.

    Whoever waits for it meanwhile makes a new one. Raises `InputError` as `files.own` does.
    """
    with suppress(BlockingIOError, FileNotFoundError, PermissionError):
        descriptor = _locked(path)  # of a missing one, nothing is held that could be removed
        try:
            path.unlink()
        finally:
            os.close(descriptor)


def _locked(path: Path, make: int = 0) -> int:
    """Return a descriptor that has the lock: to write, which a lock needs on a network's disk, or else only to read."""
    try:
        return files.locked(path, os.O_RDWR | make)
    except PermissionError:
        return files.locked(path, os.O_RDONLY)
