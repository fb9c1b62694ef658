"""The contender's side of taking turns: it trains on request, and waits while another one trains."""

import time
from collections.abc import Callable, Mapping
from typing import Any

Message = dict[str, Any]


class Turn:
    """Counts the steps between a request for some seconds of work and the answer.

    ask: blocks until the next request, `{"seconds": float}`. tell: sends an answer.
    """

    def __init__(
        self,
        ask: Callable[[], Message],
        tell: Callable[[Message], None],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._ask, self._tell, self._clock = ask, tell, clock
        self._started = clock()
        self._first: float | None = None
        self._began, self._wanted, self._steps = 0.0, 0.0, 0.0

    def stepped(self) -> None:
        """Record that the first step is done: everything before it is building, tracing and compiling."""
        if self._first is None:
            self._first = self._clock() - self._started

    def learned(self, losses: Mapping[str, float]) -> None:
        """Report the losses of the common steps, and wait for the first request."""
        self.stepped()
        self._tell({"losses": dict(losses), "first_step": self._first})
        self._wait()

    def done(self, steps: float) -> None:
        """Count finished steps; once the time is over, report and wait. The work must be finished, not queued."""
        self._steps += steps
        seconds = self._clock() - self._began
        if seconds >= self._wanted:
            self._tell({"steps": self._steps, "seconds": seconds})
            self._wait()

    def _wait(self) -> None:
        self._wanted = self._ask()["seconds"]
        self._steps, self._began = 0.0, self._clock()
