"""Tell whether a lock file is held: the kernel releases the lock when its holder ends, however it ends."""

import fcntl
import os
from pathlib import Path

from tapeline.runtime import files


def is_held(path: Path) -> bool:
    """Return whether a living process holds the lock on a file; nobody holds a missing file.

    Raises `InputError` as `files.own` does.
    """
    try:
        with os.fdopen(files.own(path, os.O_RDWR)) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        pass
    return False
