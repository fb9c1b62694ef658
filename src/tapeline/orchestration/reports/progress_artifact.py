"""A stage's progress as a bar in Prefect's UI.

bar = ProgressArtifact("train-digits")
bar.follow({"event": "progress", "done": 10, "total": 100, "unit": "steps", "metrics": {"loss": 0.5}})
"""

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast
from uuid import UUID

import httpx
from prefect import get_run_logger
from prefect.artifacts import create_progress_artifact, update_progress_artifact

from tapeline.orchestration.connection.calls import MOMENT, Calls

INTERVAL = 1.0
"""Seconds between two updates; the last one is always made."""

PATIENCE = 10.0
"""Seconds for which the last update is waited for. Others are not: the stage would wait until its output is read."""


class ProgressArtifact:
    """One bar, created at the first record with a total; `key` is its name in the UI."""

    def __init__(self, key: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._key, self._clock, self._calls = key, clock, Calls()
        self._id: UUID | None = None
        self._shown = -INTERVAL
        self._waiting: Mapping[str, Any] | None = None
        self._last: Mapping[str, Any] | None = None

    def follow(self, record: Mapping[str, Any]) -> None:
        """Take one progress record; most are not shown, but the last one is."""
        if record["event"] != "progress" or not record.get("total"):
            return
        self._waiting = self._last = record
        is_due = self._clock() - self._shown >= INTERVAL
        if record["done"] >= record["total"]:
            self.show()
        elif is_due:
            self._begin(MOMENT)

    def complete(self) -> None:
        """Set the bar to 100%: the stage succeeded, whether it reported its last step or stopped early."""
        if self._last and self._last["done"] < self._last["total"]:
            done = self._last["done"] or self._last["total"]
            self._waiting = {**self._last, "done": done, "percent": 100.0}
        self.show()

    def show(self) -> None:
        """Update the bar to the newest record."""
        if self._calls.over(patience=PATIENCE):
            self._begin(PATIENCE)

    def _begin(self, patience: float) -> None:
        """Begin to update the bar, unless the server has not answered the last update yet: the next shows it then."""
        if self._waiting is None or not self._calls.over():
            return
        record, self._waiting, self._shown = self._waiting, None, self._clock()
        percent = record.get("percent", 100 * record["done"] / record["total"])
        self._calls.begin(partial(self._update, percent, describe(record)), patience=patience)

    def _update(self, percent: float, text: str) -> None:
        """Update the bar. An unreachable server must not end a training."""
        try:
            if self._id is None:
                self._id = cast(UUID, create_progress_artifact(percent, key=self._key, description=text))
            else:
                update_progress_artifact(self._id, percent, description=text)
        except httpx.HTTPError as error:
            get_run_logger().warning(f"cannot show the progress: Prefect's server: {error!r}")


def describe(record: Mapping[str, Any]) -> str:
    """Return a progress record as one line.

    >>> describe({"done": 10, "total": 100, "unit": "steps", "epoch": 2, "metrics": {"loss": 0.5}})
    '10 of 100 steps, epoch 2, loss 0.5'
    """
    parts = [f"{record['done']} of {record['total']} {record['unit']}"]
    if "epoch" in record:
        parts.append(f"epoch {record['epoch']}")
    parts += [f"{name} {value:.4g}" for name, value in record.get("metrics", {}).items() if value is not None]
    return ", ".join(parts)
