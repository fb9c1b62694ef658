"""Wrap hooks that only watch a run: a disk failure ends their output, not the training."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tapeline.runtime import disk_errors, files
from tapeline.runtime.records import Record


class Observer:
    """A hook whose files are not vital; after the first disk failure it reports that and writes nothing more.

    begin: creates the hook when the first record arrives. folder: where it writes. name: what it writes, for messages.
    """

    def __init__(self, begin: Callable[[], Any], folder: Path, *, name: str, say: Callable[[str], None]) -> None:
        self._begin, self._folder, self._name, self._say = begin, folder, name, say
        self._hook: Any = None
        self._is_over = False

    def __call__(self, record: Record) -> None:
        """Take one record."""
        self._tolerating(lambda: self._take(record))

    def next_stop(self, step: int) -> int:
        """Return the next step at which the hook wants to look, if it ever does."""
        wanted = None if self._is_over else getattr(self._made(), "next_stop", None)
        return int(wanted(step)) if wanted else step + (1 << 62)

    def close(self) -> None:
        """Write what is buffered."""
        if close := getattr(self._hook, "close", None):
            self._tolerating(close)

    def _made(self) -> Any:
        self._hook = self._hook or self._begin()
        return self._hook

    def _take(self, record: Record) -> None:
        self._made()(record)

    def _tolerating(self, act: Callable[[], None]) -> None:
        if self._is_over:
            return
        try:
            with disk_errors.blamed(self._nearest()):  # TensorFlow does not always say that the disk was the cause
                act()
        except OSError as error:
            if error.errno not in files.DISK_ERRORS:
                raise
            self._is_over = True
            self._say(f"{self._name}: {error.strerror} ({self._folder}); training continues without them")

    def _nearest(self) -> Path:
        return next(folder for folder in (self._folder, *self._folder.absolute().parents) if folder.is_dir())
