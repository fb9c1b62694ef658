"""What a running stage tells the outside: progress as JSON lines, the outcome as one small file.

Neither is an out: both carry times, and only the flow and people read them.
"""

import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from tapeline import files

Report = Callable[[Mapping[str, Any]], None]
"""Takes one progress record: `event` and whatever belongs to it, all of it JSON."""


def silent(record: Mapping[str, Any]) -> None:
    """Take a record and tell nobody."""


class Progress:
    """Append records to a JSON-lines file, one flushed line each.

    >>> with Progress(path) as report:
    ...     report({"event": "epoch", "step": 10, "metrics": {"loss": 0.5}})
    """

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.time) -> None:
        self._path, self._clock = path, clock
        self._file: TextIO | None = None

    def __enter__(self) -> Report:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._path.open("w", buffering=1, encoding="utf-8")
        return self._write

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file:
            self._file.close()

    def _write(self, record: Mapping[str, Any]) -> None:
        assert self._file is not None, "a report is made inside `with Progress(...)`"
        self._file.write(json.dumps({"time": round(self._clock(), 3), **record}) + "\n")


def write_outcome(path: Path, *, outcome: str, status: int, message: str) -> None:
    """Leave the outcome of a stage: one of ok, input, failed, verdict, limit, interrupted.

    `session` is the process session it ran in, by which whoever started it knows its own from an earlier one.
    """
    files.write_json(path, {"outcome": outcome, "status": status, "message": message, "session": os.getsid(0)})
