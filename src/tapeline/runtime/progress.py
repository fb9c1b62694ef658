"""What a running stage reports: its progress as JSON lines, its outcome as one small file.

Neither is a DVC output: both contain times or ids, and only the flow and people read them.
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
"""Takes one progress record: `event` and its data, all of it JSON."""


def silent(record: Mapping[str, Any]) -> None:
    """Discard a record."""


class Progress:
    """Append records to a JSON-lines file, one flushed line each; a full disk drops lines but does not end the run.

    >>> with Progress(path) as report:
    ...     report({"event": "epoch", "step": 10, "metrics": {"loss": 0.5}})
    """

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.time) -> None:
        self._path, self._clock = path, clock
        self._file: BinaryIO | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Report:
        files.make_folder(self._path.parent)
        self._file = os.fdopen(files.own(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb", buffering=0)
        return self._write

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file:
            self._file.close()

    def _write(self, record: Mapping[str, Any]) -> None:
        assert self._file is not None, "a report is made inside `with Progress(...)`"
        line = (json.dumps({"time": round(self._clock(), 3), **record}) + "\n").encode()
        with self._lock:  # checkpoints are reported from a thread of their own
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
    """Write the outcome of a stage: one of ok, input, failed, verdict, limit, interrupted.

    `session` is the process session of the stage, by which its launcher tells this outcome from an earlier one.
    """
    files.write_json(path, {"outcome": outcome, "status": status, "message": message, "session": os.getsid(0)})
