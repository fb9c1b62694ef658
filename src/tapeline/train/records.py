"""What the engine tells its hooks: frozen records. A hook is any callable that takes one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class LoopEnded:
    """The host woke up: the steps from `start` to before `step` are done."""

    start: int
    step: int
    total: int
    epoch: int
    """Epochs finished."""
    metrics: Mapping[str, float]
    """Means of the epoch so far, or of the last one when it has just ended."""
    seconds: float
    """Of the loop alone: no tracing, validation or checkpoint."""
    examples: int


@dataclass(frozen=True, kw_only=True)
class Validated:
    """The `val` split was measured."""

    step: int
    epoch: int
    metrics: Mapping[str, float]
    improved: bool


@dataclass(frozen=True, kw_only=True)
class Skipped:
    """A step whose loss or state was not finite was left out."""

    step: int
    reason: str


@dataclass(frozen=True, kw_only=True)
class Saved:
    """A checkpoint is on the disk."""

    step: int
    path: Path
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Note:
    """Something that the user should know: where training starts, what is left out."""

    text: str


Record = LoopEnded | Validated | Skipped | Saved | Note
Hook = Callable[[Record], None]
