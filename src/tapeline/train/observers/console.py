"""Show a run's progress: a progress bar in a terminal, plain lines elsewhere."""

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from tqdm import tqdm

from tapeline.runtime import streams
from tapeline.runtime.records import LoopEnded, Note, Record, Saved, Skipped, Validated

QUIET = 10.0
"""Seconds between two plain lines about progress."""


def figures(metrics: Mapping[str, float]) -> str:
    """Return metrics as `loss 0.1234  accuracy 0.9876`."""
    return "  ".join(f"{name} {value:.4f}" for name, value in metrics.items())


class Console:
    """A hook that prints progress. Examples per second and ETA count only the loops, not compiling or validating."""

    def __init__(
        self,
        *,
        log_every: int | None = None,
        batch_size: int = 1,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = stream or sys.stderr
        self._log_every, self._batch_size, self._clock = log_every, batch_size, clock
        self._bar: tqdm[Any] | None = None
        self._told_at = clock()
        self._seconds, self._steps, self._examples = 0.0, 0, 0
        self._compiled = False

    def __call__(self, record: Record) -> None:
        """Take one record."""
        match record:
            case LoopEnded():
                self._progress(record)
            case Validated():
                mark = " (best)" if record.improved else ""
                self._line(f"epoch {record.epoch}  step {record.step}  validation: {figures(record.metrics)}{mark}")
            case Skipped():
                self._line(f"step {record.start} skipped: {record.reason}")
            case Saved() if self._bar is None:
                self._line(f"checkpoint at step {record.step}")
            case Note():
                self._line(record.text)

    def next_stop(self, step: int) -> int:
        """Return the next step at which a line is due; a loop must end there."""
        return (step // self._log_every + 1) * self._log_every if self._log_every else step + (1 << 62)

    def close(self) -> None:
        """Remove the progress bar from the terminal."""
        if self._bar is not None:
            self._bar.close()

    def _progress(self, record: LoopEnded) -> None:
        if self._compiled:
            self._seconds += record.seconds
            self._steps += record.step - record.start
            self._examples += record.examples
        self._compiled = True
        if self._log_every and record.step % self._log_every == 0:
            seen = record.step * self._batch_size
            self._line(f"step {record.step}  {figures(record.metrics)}  seen so far: {seen:,} examples")
        if self._stream.isatty():
            if self._bar is None:
                self._bar = tqdm(total=record.total, initial=record.start, unit="step", file=self._stream, leave=False)
            self._bar.n = record.step
            self._bar.set_description(f"epoch {record.epoch}", refresh=False)
            self._bar.set_postfix_str(f"{figures(record.metrics)}  {self._speed()}")
        elif self._clock() - self._told_at >= QUIET or record.step == record.total:
            self._told_at = self._clock()
            left = (record.total - record.step) * self._seconds / self._steps if self._steps else 0.0
            eta = f"  {left:.0f} s left" if left else ""
            done = f"epoch {record.epoch}  step {record.step}/{record.total}"
            self._line(f"{done}  {figures(record.metrics)}  {self._speed()}{eta}")

    def _speed(self) -> str:
        return f"{self._examples / self._seconds:,.0f} examples/s" if self._seconds else "compiling"

    def _line(self, text: str) -> None:
        if self._bar is not None:
            self._bar.clear()
        streams.say(text, self._stream)
