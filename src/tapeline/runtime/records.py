"""What a run passes to its hooks: frozen records. A hook is called with each, and may say where a loop must end."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class Started:
    """Training starts or resumes at `step`."""

    step: int
    total: int
    steps_per_epoch: int
    history: Sequence[Mapping[str, float]] = ()
    """The epochs before `step`, as in `history.csv`: step, epoch, training means, `val_…` if validated."""


@dataclass(frozen=True, kw_only=True)
class LoopEnded:
    """The host woke up: the steps in [start, step) are done."""

    start: int
    step: int
    total: int
    epoch: int
    """Epochs finished."""
    metrics: Mapping[str, float]
    """Means of the epoch so far, or of the whole epoch if it has just ended."""
    seconds: float
    """Time of the loop alone, without validation or checkpoint; the first one includes compiling."""
    examples: int


@dataclass(frozen=True, kw_only=True)
class Skipped:
    """The step `start` was skipped: its loss or state was not finite, or `train.skip` names it."""

    start: int
    step: int
    epoch: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class Validated:
    """The `val` split was measured."""

    step: int
    epoch: int
    metrics: Mapping[str, float]
    improved: bool
    pictures: Mapping[str, NDArray[np.uint8 | np.uint16]] = field(default_factory=dict)
    """The recipe's pictures, of shape (height, width, 1 to 4)."""


@dataclass(frozen=True, kw_only=True)
class Saved:
    """A checkpoint is on disk. Reported from the thread that wrote it."""

    step: int
    path: Path
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Note:
    """Something the user should know: where training starts, what is left out."""

    text: str


Pause = Started | LoopEnded | Skipped
"""The host is between two loops: the live state is the one at the record's `step`."""
Record = Pause | Validated | Saved | Note
Hook = Callable[[Record], None]
"""Any callable that takes a record; one that also is `Stopping` says where it wants to be called."""
Tell = Hook
"""Passes a record to every hook of a run."""


@runtime_checkable
class Stopping(Protocol):
    """A hook that makes loops end where it has something to do."""

    def __call__(self, record: Record, /) -> None:
        """Take one record."""
        ...

    def next_stop(self, step: int) -> int:
        """Return the next step above `step` at which a loop must end."""
        ...


class Stop(Exception):
    """What a recipe's hook raises to end a run: `raise Stop("the loss is above 10")`.

    The run ends with a checkpoint and a non-zero status, as past `train.max_time`, so no output is replaced. The same
    command resumes it.
    """
