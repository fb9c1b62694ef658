"""Whether the input files are what they were: answers to half of an old file and half of a new one are to neither."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tapeline.prediction.signature import shortened
from tapeline.runtime.errors import InputError, TapelineError


class Snapshot:
    """What shows that a file has changed, of each input file."""

    def __init__(self, given: Sequence[Path]) -> None:
        """Look at the files. Raises `InputError` for one that is missing."""
        self._given = given
        self._found = [_identity(file) for file in given]
        if gone := [str(file) for file, found in zip(given, self._found, strict=True) if not found]:
            raise InputError(f"{shortened(gone)}: no such file")

    def sha256(self) -> str:
        """Return the hexadecimal SHA-256 of all that is known of the files; no content is read."""
        return hashlib.sha256("".join(self._found).encode()).hexdigest()

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Raise `InputError` at the end of the block for a file that has changed; also for a failure: it may be why."""
        try:
            yield
        except (TapelineError, OSError):
            self._check()
            raise
        self._check()

    def _check(self) -> None:
        pairs = zip(self._given, self._found, strict=True)
        if changed := [str(file) for file, found in pairs if _identity(file) != found]:
            raise InputError(f"{shortened(changed)} changed while it was read: run again once nothing writes to it")


def _identity(file: Path) -> str:
    """Return what changes when a file does: its inode says of which file, its ctime cannot be set back.

    Empty for one that is missing.
    """
    try:
        found = file.stat()
    except FileNotFoundError:
        return ""
    return f"{str(file)!r} {found.st_ino} {found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}\n"
