"""What a run asks of the place where it is seen.

`monitors.terminal` needs no server; `flows.monitor` shows the run on a Prefect server.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from tapeline.orchestration.reports.summary import Report
from tapeline.orchestration.stages.outcome import Outcome

if TYPE_CHECKING:  # Optuna takes a second
    from tapeline.orchestration.sweeps.request import SweepRequest
    from tapeline.orchestration.sweeps.study import Tried

RETRY_DELAY = 2.0
"""Seconds until a killed stage is tried again: memory that ran out is free by then."""


class Bar(Protocol):
    """The progress of one stage."""

    def follow(self, record: Mapping[str, Any]) -> None:
        """Take one progress record."""

    def complete(self) -> None:
        """Set the bar to 100%: the stage succeeded."""

    def show(self) -> None:
        """Show the newest record."""


class Monitor(Protocol):
    """One run, seen from outside."""

    @property
    def run(self) -> Mapping[str, str]:
        """The run's `name`, which its branch gets, and its `id`."""

    def say(self, line: str) -> None:
        """Show a line of output."""

    def warn(self, line: str) -> None:
        """Show a warning."""

    def look(self) -> None:
        """Raise `Interrupted` if the run has been cancelled where it is seen. Called often, from the main thread."""

    def bar(self, stage: str) -> Bar:
        """Return a progress bar, named after its stage."""

    def run_stage(self, stage: str, attempt: Callable[[], Outcome], *, retries: int) -> None:
        """Call `attempt` until it was not killed, at most `1 + retries` times, in the main thread.

        A signal is raised in the main thread only, and so ends the stage in order.
        """

    def publish(self, report: Report) -> None:
        """Show the report. What keeps it from being shown must not fail a training that is done."""

    def publish_sweep(self, request: "SweepRequest", ranked: "Sequence[Tried]") -> None:
        """Show a sweep's trials, the best first; there is at least one."""
