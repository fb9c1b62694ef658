"""Bring a pipeline up to date as a Prefect flow: one task per stage.

    tapeline run --pipeline digits                            # here, in the checkout
    tapeline run --pipeline digits --isolated --ref main      # in a worktree; a commit on runs/<flow run>

`runs.training` is what the flow does, and `tapeline run` does the same where there is no server. A stage that fails
fails its task and the flow with its own last line.
"""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

import httpx
from prefect import flow, get_run_logger, runtime, states, tags
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State
from prefect.states import Completed

from tapeline.config.project import Project
from tapeline.orchestration.connection import log
from tapeline.orchestration.flows.monitor import Cancelled, PrefectMonitor, as_interrupted, failed, hold_own
from tapeline.orchestration.reports.summary import Report
from tapeline.orchestration.request import Name, Overrides, Ref, Request, Retries, Timeouts
from tapeline.orchestration.runs.training import train
from tapeline.orchestration.schedules.late_runs import collapse
from tapeline.orchestration.schedules.liveness import begin
from tapeline.orchestration.stages.likely import begin_imports, is_likely_stale
from tapeline.runtime.errors import TapelineError

begin()


@flow(name="training")
def training(
    pipeline: Name,
    isolated: bool = False,
    ref: Ref = "",
    overrides: Overrides | None = None,
    push: bool = False,
    registered: bool = False,
    retries: Retries = 2,
    timeouts: Timeouts | None = None,
) -> Report | State[Any]:
    """Ingest, train, validate and export a pipeline of `params.yaml`; only what is stale.

    Whoever calls it gets the `Report`, or a `TapelineError`: `PipelineFailed` when a stage failed.

    Args:
        pipeline: A name under `pipelines` in params.yaml.
        isolated: Train a ref in a Git worktree of its own and commit the result on a branch "runs/" with the flow run's
            name. Otherwise the checkout is brought up to date as it stands, and nothing is committed.
        ref: The branch, tag or commit that an isolated run trains. Empty: the main branch.
        overrides: Other values for the pipeline's settings in an isolated run, such as {"train.epochs": 20}.
        push: Push an isolated run's files and branch where remotes are set.
        registered: Register what an isolated run has made as the model's next version.
        retries: How many times a killed stage (out of memory) is tried again. It resumes from its checkpoint.
        timeouts: Seconds that a stage may take, such as {"train": 3600}; without one it may take any time.
    """
    return _ended(
        pipeline=pipeline,
        isolated=isolated,
        ref=ref,
        overrides=overrides or {},
        push=push,
        registered=registered,
        retries=retries,
        timeouts=timeouts or {},
    )


def _ended(**parameters: Any) -> State[Any]:
    """Do what the flow is for, and return its final state."""
    log.drop_repetition()
    try:
        request = Request.of(**parameters)
        project = Project.find()
        hold_own(project)
        take_late_runs_along()
        if not request.isolated and is_likely_stale(project, request.pipeline):
            begin_imports()
        monitor = PrefectMonitor()
        report = train(request, project, monitor)
        monitor.look(at_once=True)  # a run that is cancelled by now can end as nothing else
    except Cancelled as cancelled:
        return states.Cancelled(message=str(cancelled))
    except TapelineError as error:
        return failed(error)
    done = f"{report.headline()}: {report.branch}" if report.branch else report.headline()
    return Completed(name="nothing new" if report.finished else "Completed", message=done, data=report)


def tagged(request: Request, names: Iterable[str]) -> Report:
    """Run the flow with tags, and return its report. Raises `TapelineError`, and `Interrupted` if it was cancelled."""
    with tags(*names), as_interrupted():
        report = training(**request.model_dump())
    assert isinstance(report, Report), "the flow returns its report, or raises"
    return report


def take_late_runs_along() -> None:
    """Cancel the runs that are as late as this one. A server that does not answer must not end a training."""
    try:
        if not runtime.deployment.id:  # which asks the server, too
            return
        with get_client(sync_client=True) as client:
            if taken := collapse(client, UUID(str(runtime.flow_run.id))):
                get_run_logger().info(f"{taken} more late runs are cancelled: this one covers them")
    except httpx.HTTPError as error:
        get_run_logger().warning(f"late runs stay: {error!r}")
