"""What the engine passes to its hooks: frozen records. A hook is any callable that takes one."""

from collections.abc import Callable, Mapping
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
    pictures: Mapping[str, NDArray[np.uint8]] = field(default_factory=dict)
    """The recipe's pictures, uint8 of shape (height, width, 1 or 3)."""


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


Record = Started | LoopEnded | Skipped | Validated | Saved | Note
Hook = Callable[[Record], None]
"""Any callable that takes a record; one that also is `Stopping` says where it wants to be called."""


@runtime_checkable
class Stopping(Protocol):
    """What makes loops end where it has something to do."""

    def next_stop(self, step: int) -> int:
        """Return the next step above `step` at which a loop must end."""
        ...
