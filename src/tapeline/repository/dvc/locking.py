"""The locks that DVC's processes hold."""

from contextlib import AbstractContextManager
from pathlib import Path

from dvc.lock import make_lock


def file_lock(path: Path, *, hardlink: bool) -> AbstractContextManager[None]:
    """Return DVC's own lock at `path`. Entering it raises `LockError` if a live process holds it.

    hardlink: whether it is a hard link, as by `core.hardlink_lock`. Neither kind sees the other.
    """
    lock: AbstractContextManager[None] = make_lock(str(path), tmp_dir=str(path.parent), hardlink_lock=hardlink)
    return lock
