"""Telling how many examples are done, a few times per second at most."""

import time
from collections.abc import Callable

from tapeline.report import Report

INTERVAL = 0.3


class ExampleCounter:
    """Count examples and report them at most every `INTERVAL` seconds, and at the end."""

    def __init__(self, report: Report, total: int | None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._report, self._total, self._clock = report, total, clock
        self._done, self._last = 0, clock()

    def add(self, examples: int) -> None:
        """Count more examples."""
        self._done += examples
        if self._clock() - self._last >= INTERVAL:
            self._last = self._clock()
            self._tell()

    def finish(self) -> None:
        """Report the final count, which is then the total."""
        self._total = self._done
        self._tell()

    def _tell(self) -> None:
        record = {"event": "progress", "done": self._done, "unit": "examples"}
        self._report(record if self._total is None else {**record, "total": self._total})
