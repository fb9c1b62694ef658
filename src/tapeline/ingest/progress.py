"""Report how many examples are done: to the flow a few times a second, on standard error every few seconds."""

import sys
import time
from collections.abc import Callable

from tapeline.runtime import streams
from tapeline.runtime.progress import Report

REPORTED = 0.3
"""Seconds between two reports."""
PRINTED = 10.0
"""Seconds between two printed lines. A dataset that is read faster needs none."""


class ExampleCounter:
    """Counts examples, reports the count and, if reading takes long, prints a line now and then."""

    def __init__(self, report: Report, total: int | None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._report, self._total, self._clock = report, total, clock
        self._done = 0
        self._reported = self._printed = clock()

    def add(self, examples: int) -> None:
        """Count more examples."""
        self._done += examples
        now = self._clock()
        if now - self._reported >= REPORTED:
            self._reported = now
            self._tell()
        if now - self._printed >= PRINTED:
            self._printed = now
            of = "" if self._total is None else f" of {self._total:,}"
            streams.say(f"{self._done:,}{of} examples", sys.stderr)

    def finish(self) -> None:
        """Report the final count as the total."""
        self._total = self._done
        self._tell()

    def _tell(self) -> None:
        record = {"event": "progress", "done": self._done, "unit": "examples"}
        self._report(record if self._total is None else {**record, "total": self._total})
