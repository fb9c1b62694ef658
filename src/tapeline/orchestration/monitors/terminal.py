"""A run without a server: its lines in the terminal, its report in a file as well.

report = train(request, project, Terminal(project))
"""

import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tapeline.config.project import Project
from tapeline.orchestration.monitors.monitor import RETRY_DELAY
from tapeline.orchestration.reports import drawing
from tapeline.orchestration.reports.summary import Report
from tapeline.orchestration.stages.outcome import Outcome
from tapeline.runtime import files, streams
from tapeline.runtime.errors import plain

if TYPE_CHECKING:  # Optuna takes a second
    from tapeline.orchestration.sweeps.request import SweepRequest
    from tapeline.orchestration.sweeps.study import Tried

REPORTS = "reports"
"""Folder in the project's shared state: one page a pipeline, of the last run that ran a stage."""


class NoBar:
    """No bar: a stage's own output says how far it is."""

    def __init__(self, *, page: bool) -> None:
        """`page`: whether a page will be drawn, whose library is imported while a stage works."""
        self._page = page

    def follow(self, record: Mapping[str, Any]) -> None:
        """Take one progress record."""
        if self._page:
            drawing.begin_import()

    def complete(self) -> None:
        """Do nothing."""

    def show(self) -> None:
        """Do nothing."""


class Terminal:
    """One run, seen in the terminal."""

    def __init__(self, project: Project, *, page: bool = True) -> None:
        """`page`: whether a run's report is written."""
        self._page = page
        self._folder = project.shared / REPORTS
        self._stage = ""

    @cached_property
    def run(self) -> Mapping[str, str]:
        """The run's name, such as `brave-otter`, and its id."""
        import coolname

        return {"name": coolname.generate_slug(2), "id": str(uuid.uuid4())}

    def say(self, line: str) -> None:
        """Print a line with the time and the stage to stderr. A terminal that is gone ends no training."""
        parts = [time.strftime("%H:%M:%S"), self._stage, plain(line)]
        streams.say("  ".join(filter(None, parts)), sys.stderr)

    def warn(self, line: str) -> None:
        """Print a warning."""
        self.say(line)

    def look(self) -> None:
        """Do nothing: a signal ends this run."""

    def bar(self, stage: str) -> NoBar:
        """Return nothing to look at."""
        return NoBar(page=self._page)

    def run_stage(self, stage: str, attempt: Callable[[], Outcome], *, retries: int) -> None:
        """Call `attempt` until it was not killed, at most `1 + retries` times."""
        self._stage = stage
        for left in reversed(range(1 + retries)):
            outcome = attempt()
            if not outcome.may_resume or not left:
                break
            self.say(outcome.message)
            time.sleep(RETRY_DELAY)
        self._stage = ""

    def publish(self, report: Report) -> None:
        """Write the report as a page, if one is wanted and something ran: else the page is the last run's."""
        if not self._page or all(result.outcome.word == "unchanged" for result in report.stages.values()):
            return
        from tapeline.orchestration.reports.page import markdown

        self._write(f"training-{report.pipeline}", lambda: markdown(report))

    def publish_sweep(self, request: "SweepRequest", ranked: "Sequence[Tried]") -> None:
        """Write the sweep's page."""
        from tapeline.orchestration.sweeps.page import page

        self._write(f"sweep-{request.name}", lambda: page(request, ranked))

    def _write(self, name: str, page: Callable[[], str]) -> None:
        path = self._folder / f"{name}.md"
        try:
            files.write_text(path, page())
        except OSError as error:
            self.warn(f"could not write the report: {error}")
        else:
            self.say(f"report: {path}")
