"""Trials side by side, recorded in the order in which they began.

Which trial ends first is chance. What is proposed next depends on what is recorded by then, so the same seed tries the
same values again only if that is the same: all trials but the last `ahead` that have begun.
"""

from tapeline.orchestration.sweeps.trial import Trial


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
