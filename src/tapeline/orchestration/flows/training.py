"""Bring a pipeline up to date as a Prefect flow: one task per stage.

    tapeline run --pipeline digits                            # here, in the checkout
    tapeline run --pipeline digits --isolated --ref main      # in a worktree; a commit on runs/<flow run>

`runs.training` implements the flow; without a server, `tapeline run` calls it directly. A stage that fails
fails its task and the flow with its own last line as the message.
"""

from collections.abc import Iterable
from typing import Any

from prefect import flow, states, tags
from prefect.client.schemas.objects import State
from prefect.states import Completed

from tapeline.config.project import Project
from tapeline.orchestration.connection import log
from tapeline.orchestration.flows.monitor import Cancelled, PrefectMonitor, as_interrupted, failed, hold_own
from tapeline.orchestration.reports.summary import Report
from tapeline.orchestration.request import Name, Overrides, Ref, Request, Retries, Timeouts
from tapeline.orchestration.runs.training import train
from tapeline.orchestration.schedules.late_runs import cancel_late_runs
from tapeline.orchestration.schedules.liveness import begin
from tapeline.orchestration.stages.likely import begin_imports, is_likely_stale
from tapeline.runtime.errors import TapelineError

begin()


@flow(name="training", retries=0)
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
    """Ingest, train, validate and export a pipeline of `params.yaml`, as far as it is stale.

    Returns the `Report` to a caller, or raises a `TapelineError`: `PipelineFailed` if a stage failed.

    Args:
        pipeline: A name under `pipelines` in params.yaml.
        isolated: Train a ref in a separate Git worktree and commit the result to a branch "runs/" with the flow run's
            name. Otherwise the checkout is brought up to date as it stands, and nothing is committed.
        ref: The branch, tag or commit for an isolated run to train. Empty: the main branch.
        overrides: Values that replace the pipeline's settings in an isolated run, such as {"train.epochs": 20}.
        push: Push an isolated run's files and branch to the configured remotes.
        registered: Register the model of an isolated run as its next version.
        retries: How often to retry a stage that was killed (out of memory). Training resumes from its checkpoint.
        timeouts: Time limits of stages in seconds, such as {"train": 3600}; stages that are not listed have none.
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
    """Run the training, and return the flow's final state."""
    log.drop_repetition()
    try:
        request = Request.of(**parameters)
        project = Project.find()
        hold_own(project)
        cancel_late_runs()
        if not request.isolated and is_likely_stale(project, request.pipeline):
            begin_imports()
        monitor = PrefectMonitor()
        report = train(request, project, monitor)
        monitor.look(at_once=True)  # a run that is cancelled by now can end as nothing else
    except Cancelled as cancelled:
        return states.Cancelled(message=str(cancelled))
    except (TapelineError, OSError) as error:
        return failed(error)
    done = f"{report.headline()}: {report.branch}" if report.branch else report.headline()
    return Completed(name="nothing new" if report.finished else "Completed", message=done, data=report)


def tagged(request: Request, names: Iterable[str]) -> Report:
    """Run the flow with tags, and return its report. Raises `TapelineError`, and `Interrupted` if it was cancelled."""
    with tags(*names), as_interrupted():
        report = training(**request.model_dump())
    assert isinstance(report, Report), "the flow returns its report, or raises"
    return report
