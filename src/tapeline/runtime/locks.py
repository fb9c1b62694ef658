"""Tell whether a lock file is held: the kernel releases the lock when its holder ends, however it ends."""

import fcntl
from pathlib import Path


def is_held(path: Path) -> bool:
    """Return whether a living process holds the lock on a file; nobody holds a missing file."""
    try:
        with path.open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        pass
    return False
