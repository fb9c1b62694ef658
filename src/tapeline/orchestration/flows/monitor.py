"""A run on a Prefect server: a task run per stage, its output as the task's log, progress and report as artifacts."""

import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

import httpx
from prefect import get_run_logger, runtime, states, task
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import FlowRun, State
from prefect.context import FlowRunContext
from prefect.exceptions import (
    Abort,
    CancelledRun,
    ObjectNotFound,
    PrefectException,
    TerminationSignal,
    UnfinishedRun,
)
from prefect.states import Completed, Failed

from tapeline.config.project import Project
from tapeline.orchestration.connection.calls import Calls
from tapeline.orchestration.connection.failures import GONE
from tapeline.orchestration.monitors.monitor import RETRY_DELAY
from tapeline.orchestration.reports.events import tell
from tapeline.orchestration.reports.page import markdown
from tapeline.orchestration.reports.progress_artifact import ProgressArtifact
from tapeline.orchestration.reports.summary import Report
from tapeline.orchestration.schedules.liveness import hold
from tapeline.orchestration.stages.outcome import Outcome
from tapeline.runtime.disk_errors import disk_error
from tapeline.runtime.errors import Interrupted, RunError, TapelineError, plain

if TYPE_CHECKING:  # Optuna takes a second
    from tapeline.orchestration.sweeps.request import SweepRequest
    from tapeline.orchestration.sweeps.study import Tried


LOOK = 3.0
"""Seconds between checks whether the run was cancelled on the server."""

WORKER = 20.0
"""Seconds that a worker has to end a deployment's run that is cancelled, before the run does so itself.

A worker that was killed never does, nor one whose server was away for half a minute: Prefect's looks no more then.
"""


class Cancelled(Interrupted):
    """The run was cancelled on the server. It ends as after SIGTERM, which a worker sends in this case."""

    def __init__(self) -> None:
        super().__init__("cancelled in Prefect; run again to resume", signum=signal.SIGTERM)


class Deleted(Abort):
    """The run was deleted on the server, which cannot accept a state for it: Prefect ends it without one."""

    def __init__(self) -> None:
        super().__init__(GONE)


def hold_own(project: Project) -> None:
    """Hold the lock of the flow run that this is in. It is left where the server does not take how the run ends."""
    context = FlowRunContext.get()
    run = context.flow_run if context else None
    if run:  # none where the flow is called as a plain function
        hold(project, str(run.id), is_told=lambda: bool(run.state and run.state.is_final()))  # as Prefect keeps it


@contextmanager
def as_interrupted() -> Iterator[None]:
    """Raise `Cancelled` or `RunError` in place of Prefect's exceptions for a run that was cancelled or given up."""
    try:
        yield
    except (CancelledRun, UnfinishedRun):  # unfinished: as it ended, so that the server did not take its state
        raise Cancelled from None
    except Deleted as error:
        raise RunError(str(error)) from None


def failed(error: TapelineError | OSError) -> State[Any]:
    """Return the final state of a failed run; if it was cancelled meanwhile, it can only end as cancelled.

    The caller of the flow gets the error, of the operating system's as `disk_error` has it. Raises `Deleted`.
    """
    if isinstance(error, OSError):
        error = disk_error(error)
    try:
        PrefectMonitor().look(at_once=True)
    except Cancelled as cancelled:
        return states.Cancelled(message=str(cancelled))
    return Failed(message=str(error), data=error)


def is_cancelled(run: UUID) -> bool:
    """Return whether a flow run was cancelled. Raises the errors of httpx and of Prefect."""
    with get_client(sync_client=True) as client:
        state = client.read_flow_run(run).state
    return bool(state and (state.is_cancelling() or state.is_cancelled()))


class Cancellation:
    """Decides whether a flow run must end itself because it was cancelled."""

    def __init__(self, run: FlowRun) -> None:
        self._run = run
        self._seen = 0.0

    def is_due(self, *, at_once: bool = False) -> bool:
        """Ask the server. A deployment's run waits for its worker unless `at_once`. Raises as `is_cancelled`."""
        if not is_cancelled(self._run.id):
            return False
        now = time.monotonic()
        self._seen = self._seen or now
        return at_once or not self._run.deployment_id or now - self._seen >= WORKER


class PrefectMonitor:
    """The monitor of the flow run that is in progress."""

    def __init__(self) -> None:
        self._looked = time.monotonic()
        context = FlowRunContext.get()  # `runtime.deployment.id` asks the server each time that it is read
        self._cancellation = Cancellation(context.flow_run) if context and context.flow_run else None
        self._calls, self._cancelled = Calls(), False

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

    def look(self, *, at_once: bool = False) -> None:
        """Ask the server at once, or every few seconds, then without waiting for one that hangs.

        Raises `Cancelled`, of a deployment's run where its worker does not end it; at once, that is at the end, of any,
        and also `Deleted`.
        """
        if not self._cancellation:
            return
        if at_once:
            self._ask(self._cancellation, at_once=True)
        elif time.monotonic() - self._looked >= LOOK:
            self._looked = time.monotonic()
            self._calls.begin(partial(self._ask, self._cancellation))
        if self._cancelled:
            raise Cancelled

    def _ask(self, cancellation: Cancellation, *, at_once: bool = False) -> None:
        try:
            self._cancelled = cancellation.is_due(at_once=at_once)
        except (httpx.HTTPError, PrefectException) as error:
            if at_once and isinstance(error, ObjectNotFound):
                raise Deleted from None
            get_run_logger().debug(f"cannot tell whether the run was cancelled: {error!r}")

    def bar(self, stage: str) -> ProgressArtifact:
        """Return the stage's bar in the UI."""
        return ProgressArtifact(stage.replace("@", "-"))

    def run_stage(self, stage: str, attempt: Callable[[], Outcome], *, retries: int) -> None:
        """Call `attempt` as a task, never submitted: a signal is raised in the main thread only."""
        last: list[Outcome] = []
        cancelled: list[Cancelled] = []

        def was_killed(*of_task: object) -> bool:
            return bool(last and last[-1].may_resume)

        def recorded() -> Outcome:
            try:
                last.append(self._unless_cancelled(attempt))
            except Cancelled as error:
                cancelled.append(error)
                raise
            return last[-1]

        tried = _run_stage.with_options(retries=retries, retry_delay_seconds=RETRY_DELAY, retry_condition_fn=was_killed)
        tried(stage, recorded)
        if cancelled:  # the task's state is returned, not raised
            raise cancelled[0]

    def _unless_cancelled(self, attempt: Callable[[], Outcome]) -> Outcome:
        """Return what `attempt` does. Raises `Cancelled` for a worker's signal, where Prefect would call it a crash."""
        try:
            return attempt()
        except TerminationSignal:
            self.look(at_once=True)
            raise

    def publish(self, report: Report) -> None:
        """Leave the report on the server, and its event."""
        tell(report)
        try:
            create_markdown_artifact(markdown(report), key=f"training-{report.pipeline}", description=report.headline())
        except httpx.HTTPError as error:
            get_run_logger().warning(f"could not send the report to the server: {error!r}")

    def publish_sweep(self, request: "SweepRequest", ranked: "Sequence[Tried]") -> None:
        """Leave the ranked table and the page on the server; one that does not answer must not undo the sweep."""
        from tapeline.orchestration.sweeps.page import headline, page, table

        key = f"sweep-{request.name}"
        try:
            create_table_artifact(table(request, ranked), key=f"{key}-table", description="best first")
            create_markdown_artifact(page(request, ranked), key=key, description=headline(request, ranked))
        except httpx.HTTPError as error:
            get_run_logger().warning(f"could not send the sweep's page to the server: {error!r}")


@task(name="run_stage", task_run_name="{stage}", cache_policy=NO_CACHE)
def _run_stage(stage: str, attempt: Callable[[], Outcome]) -> State[Any]:
    """Bring one stage up to date."""
    try:
        outcome = attempt()
    except Cancelled as cancelled:
        return states.Cancelled(message=str(cancelled))
    if not outcome.ok:
        return Failed(message=outcome.message)
    return Completed(name="Completed" if outcome.word == "ran" else outcome.word, message=outcome.message)
