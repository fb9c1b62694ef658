"""A run on a Prefect server: a task run per stage, its output as the task's log, progress and report as artifacts."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import httpx
from prefect import get_run_logger, runtime, task
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from tapeline.orchestration.monitors.monitor import RETRY_DELAY
from tapeline.orchestration.reports.events import tell
from tapeline.orchestration.reports.page import markdown
from tapeline.orchestration.reports.progress_artifact import ProgressArtifact
from tapeline.orchestration.reports.summary import Report
from tapeline.orchestration.stages.outcome import Outcome
from tapeline.runtime.errors import plain

if TYPE_CHECKING:  # Optuna takes a second
    from tapeline.orchestration.sweeps.request import SweepRequest
    from tapeline.orchestration.sweeps.study import Tried


class PrefectMonitor:
    """The flow run in which it is used."""

    @property
    def run(self) -> Mapping[str, str]:
        """The flow run's name and id."""
        return {"name": str(runtime.flow_run.name), "id": str(runtime.flow_run.id)}

    def say(self, line: str) -> None:
        """Log a line of the flow, or of the stage that runs."""
        get_run_logger().info(plain(line))

    def warn(self, line: str) -> None:
        """Log a warning."""
        get_run_logger().warning(plain(line))

    def bar(self, stage: str) -> ProgressArtifact:
        """Return the stage's bar in the UI."""
        return ProgressArtifact(stage.replace("@", "-"))

    def run_stage(self, stage: str, attempt: Callable[[], Outcome], *, retries: int) -> None:
        """Call `attempt` as a task, never submitted: a signal is raised in the main thread only."""
        last: list[Outcome] = []

        def was_killed(*of_task: object) -> bool:
            return bool(last and last[-1].may_go_on)

        def recorded() -> Outcome:
            last.append(attempt())
            return last[-1]

        tried = _run_stage.with_options(retries=retries, retry_delay_seconds=RETRY_DELAY, retry_condition_fn=was_killed)
        tried(stage, recorded)

    def publish(self, report: Report) -> None:
        """Leave the report on the server, and its event."""
        tell(report)
        try:
            create_markdown_artifact(markdown(report), key=f"training-{report.pipeline}", description=report.headline())
        except httpx.HTTPError as error:
            get_run_logger().warning(f"the report could not be sent to the server: {error!r}")

    def publish_sweep(self, request: "SweepRequest", ranked: "Sequence[Tried]") -> None:
        """Leave the ranked table and the page on the server; one that does not answer must not undo the sweep."""
        from tapeline.orchestration.sweeps.page import headline, page, table

        key = f"sweep-{request.name}"
        try:
            create_table_artifact(table(request, ranked), key=f"{key}-table", description="best first")
            create_markdown_artifact(page(request, ranked), key=key, description=headline(request, ranked))
        except httpx.HTTPError as error:
            get_run_logger().warning(f"the sweep's page could not be sent to the server: {error!r}")


@task(name="run_stage", task_run_name="{stage}", cache_policy=NO_CACHE)
def _run_stage(stage: str, attempt: Callable[[], Outcome]) -> State[Any]:
    """Bring one stage up to date."""
    outcome = attempt()
    if not outcome.ok:
        return Failed(message=outcome.message)
    return Completed(name="Completed" if outcome.word == "ran" else outcome.word, message=outcome.message)
