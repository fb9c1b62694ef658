"""What a running stage tells the outside: progress as JSON lines, the outcome as one small file.

Neither is an out: both carry times, and only the flow and people read them.
"""

import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from tapeline.runtime import files

Report = Callable[[Mapping[str, Any]], None]
"""Takes one progress record: `event` and whatever belongs to it, all of it JSON."""


def silent(record: Mapping[str, Any]) -> None:
    """Take a record and tell nobody."""


class Progress:
    """Append records to a JSON-lines file, one flushed line each; a disk that is full ends no run: lines are left out.

    >>> with Progress(path) as report:
    ...     report({"event": "epoch", "step": 10, "metrics": {"loss": 0.5}})
    """

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.time) -> None:
        self._path, self._clock = path, clock
        self._file: BinaryIO | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Report:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._path.open("wb", buffering=0)
        return self._write

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file:
            self._file.close()

    def _write(self, record: Mapping[str, Any]) -> None:
        assert self._file is not None, "a report is made inside `with Progress(...)`"
        line = (json.dumps({"time": round(self._clock(), 3), **record}) + "\n").encode()
        with self._lock:  # checkpoints are told of from their own thread
            whole = self._file.tell()
            try:
                written = self._file.write(line)
            except OSError as error:
                if error.errno not in files.DISK_ERRORS:
                    raise
                written = 0
            if 0 < written < len(line):
                self._file.truncate(whole)
                self._file.seek(whole)


def write_outcome(path: Path, *, outcome: str, status: int, message: str) -> None:
    """Leave the outcome of a stage: one of ok, input, failed, verdict, limit, interrupted.

    `session` is the process session it ran in, by which whoever started it knows its own from an earlier one.
    """
    files.write_json(path, {"outcome": outcome, "status": status, "message": message, "session": os.getsid(0)})
