"""Trials side by side, recorded in the order in which they began.

Which trial ends first is chance. What is proposed next depends on what is recorded by then, so the same seed tries the
same values again only if that is the same: all trials but the last `ahead` that have begun.
"""

from pathlib import Path

import psutil

from tapeline.orchestration.sweeps.trial import Trial
from tapeline.runtime import environment

MOST = 8
"""Trials at once unless more are asked for: each reads and writes the same disk."""

MEMORY = 4 << 30
"""Bytes of memory for each trial: a process with TensorFlow, a model of some size and its data."""

GPUS = ("nvidia[0-9]*", "kfd")
"""Devices of GPUs: TensorFlow takes all of a GPU's memory, so a second trial would have none."""

DEVICES = Path("/dev")
CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


def usual() -> int:
    """Return how many trials run at once on this machine where nobody has said it.

    A short trial is mostly imports, tracing and checks, which use one core.
    """
    if any(True for pattern in GPUS for _ in DEVICES.glob(pattern)):
        return 1
    return max(1, min(environment.cores(), _memory() // MEMORY, MOST))


def _memory() -> int:
    """Return the bytes of memory that this process may use."""
    memory = int(psutil.virtual_memory().total)
    try:
        limit = CGROUP_LIMIT.read_text(encoding="ascii").strip()
    except OSError:  # another system, or another version of cgroups
        return memory
    return min(memory, int(limit)) if limit.isdecimal() else memory


class InOrder:
    """The trials that have begun and are not recorded, the first one first."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._ahead = 1 if at_once == 1 else 2 * at_once  # as many again, lest one long trial keeps the others waiting
        self._open: list[Trial] = []
        self._told: set[int] = set()

    @property
    def living(self) -> list[Trial]:
        """The trials whose process runs."""
        return [trial for trial in self._open if not trial.done]

    def has_room(self, missing: int) -> bool:
        """Return whether a trial may begin; `missing` values are not recorded yet."""
        return len(self._open) < min(self._ahead, missing) and len(self.living) < self._at_once

    def add(self, trial: Trial) -> None:
        """Add a trial that has begun."""
        self._open.append(trial)

    def ended(self) -> list[Trial]:
        """Return the trials that have ended since the last call."""
        news = [trial for trial in self._open if trial.done and trial.trial.number not in self._told]
        self._told |= {trial.trial.number for trial in news}
        return news

    def due(self, missing: int) -> Trial | None:
        """Return the trial that is to be recorded now, which is removed; None while nothing is."""
        if self._open and self._open[0].done and len(self._open) >= min(self._ahead, missing):
            return self._open.pop(0)
        return None

    def rest(self) -> list[Trial]:
        """Return and remove the trials that have ended, due or not: no other one will begin."""
        ended = [trial for trial in self._open if trial.done]
        self._open = self.living
        return ended
