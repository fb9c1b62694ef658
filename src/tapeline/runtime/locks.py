"""Whether somebody holds a lock file: the kernel frees it when its holder ends, however it ends."""

import fcntl
from pathlib import Path


def is_held(path: Path) -> bool:
    """Return whether a living process holds the lock on a file; one that is not there is held by nobody."""
    try:
        with path.open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        pass
    return False
