"""Follow the JSON-lines file in which a stage reports its progress."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tapeline.parsing import json_text
from tapeline.runtime import files


class ProgressFile:
    """The progress file of the next run: its content when this object is created is an earlier run's, and skipped."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._earlier = self._stamp()
        self._position = 0

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield the records written since the last call; an incomplete line is left for the next call."""
        stamp = self._stamp()
        if stamp is None or stamp == self._earlier:
            return
        if stamp[1] < self._position:  # another run of the stage began
            self._position = 0
        with files.opened(self._path) as file:
            file.seek(self._position)
            complete, newline, _ = file.read().rpartition(b"\n")
        self._position += len(complete) + len(newline)
        for line in complete.splitlines():
            with contextlib.suppress(json_text.NotJson):  # cut by a full disk
                yield json_text.mapping(line)

    def _stamp(self) -> tuple[int, int, int] | None:
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return None
        return status.st_ino, status.st_size, status.st_mtime_ns
