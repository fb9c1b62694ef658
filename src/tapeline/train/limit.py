"""A hook that ends a run when its time is up."""

import time
from collections.abc import Callable

from tapeline.runtime.errors import LimitReached
from tapeline.runtime.records import LoopEnded, Record, Started
from tapeline.train.checkpoints.disk import SAVED


class TimeLimit:
    """Raises `LimitReached` `seconds` after the first step began; compiling counts."""

    def __init__(self, seconds: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock = seconds, clock
        self._began = clock()

    def __call__(self, record: Record) -> None:
        """Check the clock after each loop."""
        if isinstance(record, Started):
            self._began = self._clock()
        elif isinstance(record, LoopEnded) and record.step < record.total and self._is_over():
            raise LimitReached(
                f"train.max_time of {self._seconds:g} s reached at step {record.step} of {record.total}; "
                f"{SAVED}: run again to resume"
            )

    def _is_over(self) -> bool:
        return self._clock() - self._began > self._seconds
