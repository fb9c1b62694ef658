"""Hash a file while it is read, and check that it did not change.

hashed = Hashed(path)
...                                      # read the file
hashed.sha256()                          # of what was read
"""

import threading
import time
from pathlib import Path

from tapeline.runtime import files
from tapeline.runtime.errors import InputError

COARSE = 5.0
"""Seconds: a file that was written more recently may be written again without another time of change."""


class Hashing:
    """Hashes a file in a thread, while this one reads it too."""

    def __init__(self, path: Path) -> None:
        self._path, self._found = path, ""
        self._error: OSError | InputError | None = None
        self._thread = threading.Thread(target=self._hash, name="hash", daemon=True)
        self._thread.start()

    def sha256(self) -> str:
        """Return the hash when there is one. Raises what reading the file did."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._found

    def wait(self) -> None:
        """Wait until the whole file was read."""
        self._thread.join()

    def _hash(self) -> None:
        try:
            self._found = files.sha256(self._path)
        except (OSError, InputError) as error:
            self._error = error


class Hashed:
    """Hashes a file in a thread, which takes as long as reading it, and notices if it changes meanwhile."""

    def __init__(self, path: Path) -> None:
        self._path, self._before = path, _identity(path)
        self._fresh = abs(time.time() - path.stat().st_mtime) < COARSE
        self._hashing = Hashing(path)
        if self._fresh:
            self._hashing.wait()  # else it might hash what was not read

    def sha256(self) -> str:
        """Return the hash. Raises `InputError` if the file has changed since this object was made."""
        found = self._hashing.sha256()
        if _identity(self._path) != self._before or (self._fresh and files.sha256(self._path) != found):
            raise InputError(f"{self._path.name} changed while it was read: ingest again when nothing writes to it")
        return found


def _identity(path: Path) -> tuple[int, ...]:
    found = path.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
