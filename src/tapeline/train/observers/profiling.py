"""A hook that records a profiler trace of selected steps."""

from collections.abc import Callable
from pathlib import Path

import tensorflow as tf

from tapeline.runtime import files, tensorflow_files
from tapeline.runtime.errors import InputError
from tapeline.runtime.records import Note, Pause, Record, Started


def check(first: int, last: int, *, start: int, total: int) -> None:
    """Raise `InputError` for steps that this run does not execute: beyond its end, or before the one it resumes at."""
    if last > total:
        raise InputError(f"--profile {first}:{last}: the run has {total} steps, so LAST must be at most {total}")
    if first < start:
        raise InputError(
            f"--profile {first}:{last}: training resumes from step {start}: give later steps, or add --fresh"
        )


class Profile:
    """Traces the steps in [first, last), which run in their own loops."""

    def __init__(self, first: int, last: int, folder: Path, *, tell: Callable[[Record], None]) -> None:
        self._first, self._last, self._folder, self._tell = first, last, folder, tell
        self._tracing = False

    def next_stop(self, step: int) -> int:
        """Return the next step at which tracing begins or ends."""
        return min((border for border in (self._first, self._last) if border > step), default=step + (1 << 62))

    def __call__(self, record: Record) -> None:
        """Begin or end tracing between two loops. Raises `InputError` at the start, as `check` does."""
        if not isinstance(record, Pause):
            return
        if isinstance(record, Started):
            check(self._first, self._last, start=record.step, total=record.total)
        if record.step == self._first:
            files.make_folder(self._folder)
            tf.profiler.experimental.start(str(self._folder))
            self._tracing = True
        elif self._tracing and record.step >= self._last:
            self.close()

    def close(self) -> None:
        """Write the trace, if one is being recorded."""
        if self._tracing:
            tf.profiler.experimental.stop()
            tensorflow_files.share(self._folder)
            self._tracing = False
            self._tell(Note(text=f"wrote the profile of steps {self._first} to {self._last} to {self._folder}"))
