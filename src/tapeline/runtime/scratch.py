"""A temporary folder that outlives no process for long: the next one removes what a killed one has left.

with scratch.folder("predict") as folder:
    ...

Beside each is a lock, which its process holds: the kernel releases it however the process ends.
"""

import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tapeline.runtime import files
from tapeline.runtime.errors import InputError

LOCK = ".lock"


@contextmanager
def folder(kind: str) -> Iterator[Path]:
    """Yield an empty folder, which goes with the block. kind: the beginning of its name.

    Where `/tmp/tapeline-UID` is not this user's alone, it is one that nobody will miss.
    """
    place = private()
    if place is None:
        with tempfile.TemporaryDirectory(prefix=f"tapeline-{kind}-") as made:
            yield Path(made)
        return
    _tidy(place)
    lock = place / f"{kind}-{secrets.token_hex(6)}{LOCK}"
    descriptor = files.locked(lock, os.O_RDWR | os.O_CREAT, 0o600, wait=True)  # `_tidy` may hold it for a moment
    made_here = lock.with_suffix("")
    try:
        made_here.mkdir(mode=0o700)
        yield made_here
    finally:
        _remove(lock)
        os.close(descriptor)


def private() -> Path | None:
    """Return the folder for those of this user, made if need be; None if another user could write there."""
    place = Path(tempfile.gettempdir(), f"tapeline-{os.geteuid()}")
    try:
        with suppress(FileExistsError):
            place.mkdir(mode=0o700)
        found = place.lstat()
    except OSError:
        return None
    is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077
    return place if is_ours else None


def _tidy(place: Path) -> None:
    """Remove what dead processes have left."""
    for lock in place.glob(f"*{LOCK}"):
        with suppress(OSError, InputError):
            descriptor = files.locked(lock, os.O_RDWR)
            try:
                _remove(lock)
            finally:
                os.close(descriptor)


def _remove(lock: Path) -> None:
    """Remove a folder, and then its lock: what cannot be removed now is found again."""
    files.discard(lock.with_suffix(""))
    if not os.path.lexists(lock.with_suffix("")):
        lock.unlink(missing_ok=True)
