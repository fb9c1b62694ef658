"""Bring a pipeline up to date: one Prefect task per stage.

    tapeline run --pipeline digits                            # here, in the checkout
    tapeline run --pipeline digits --isolated --ref main      # in a worktree; a commit on runs/<flow run>

DVC decides what is stale and is the only cache. A stage that is not starts no process; one that is runs as
`dvc repro` would run it, so that both leave the same bytes and the same `dvc.lock`. A stage that fails fails its
task and the flow with its own last line; one that was killed is tried again and resumes from its checkpoint.
"""

import time
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import Any
from uuid import UUID

import httpx
from prefect import flow, get_run_logger, runtime, tags, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from tapeline.config.project import Project
from tapeline.orchestration.connection import log
from tapeline.orchestration.isolation.isolated_run import isolated as isolated_run
from tapeline.orchestration.reports.comparison import compared
from tapeline.orchestration.reports.events import tell
from tapeline.orchestration.reports.page import markdown
from tapeline.orchestration.reports.progress_artifact import ProgressArtifact
from tapeline.orchestration.reports.summary import Report, StageResult
from tapeline.orchestration.request import Name, Overrides, Ref, Request, Retries, Timeouts
from tapeline.orchestration.schedules.late_runs import collapse
from tapeline.orchestration.schedules.liveness import begin, hold
from tapeline.orchestration.stages.dvc_stage import DvcProject, DvcStage
from tapeline.orchestration.stages.execution import bring_up_to_date, when_free
from tapeline.orchestration.stages.pipeline import checked
from tapeline.repository.repair import repair
from tapeline.runtime.errors import RunError, TapelineError

begin()

RETRY_DELAY = 2.0
"""Seconds until a killed stage is tried again: memory that ran out is free by then."""


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
        retries: How often a stage is tried again that was killed (out of memory). It resumes from its checkpoint.
        timeouts: Seconds that a stage may take, such as {"train": 3600}; without one it may take any time.
    """
    log.drop_repetition()
    try:
        request = Request.of(
            pipeline=pipeline,
            isolated=isolated,
            ref=ref,
            overrides=overrides or {},
            push=push,
            registered=registered,
            retries=retries,
            timeouts=timeouts or {},
        )
        project = Project.find()
        hold(project, str(runtime.flow_run.id))
        take_late_runs_along()
        return train_isolated(request, project) if isolated else train_in_place(request)
    except TapelineError as error:
        return Failed(message=str(error), data=error)


def tagged(request: Request, names: Iterable[str]) -> Report:
    """Run the flow with tags, and return its report. Raises `TapelineError`."""
    with tags(*names):
        report = training(**request.model_dump())
    assert isinstance(report, Report), "the flow returns its report, or raises"
    return report


def train_in_place(request: Request) -> State[Any]:
    """Bring the checkout up to date as it stands."""
    report = Report(request.pipeline, checked(request.pipeline), request)
    run_stages(request, report)
    publish(report)
    report.check()
    return Completed(message=report.headline(), data=report)


def train_isolated(request: Request, project: Project) -> State[Any]:
    """Train a ref in a worktree and commit the result, unless a finished run has made the same."""
    flow_run = {"name": str(runtime.flow_run.name), "id": str(runtime.flow_run.id)}
    with isolated_run(request, project, flow_run=flow_run, say=get_run_logger().info) as run:
        report = Report(request.pipeline, run.project, request, finished=run.finished)
        if run.finished:
            report.keep()
            run.push()
            report.version = run.register()
            return Completed(name="nothing new", message=report.headline(), data=report)
        run_stages(request, report)
        try:
            if report.ok:
                report.branch = run.commit()
                run.push()
                report.version = run.register()
        finally:
            publish(report)
        report.check()
        return Completed(message=f"{report.headline()}: {report.branch}", data=report)


def take_late_runs_along() -> None:
    """Cancel the runs that are as late as this one. A server that does not answer must not end a training."""
    if not runtime.deployment.id:
        return
    try:
        with get_client(sync_client=True) as client:
            if taken := collapse(client, UUID(str(runtime.flow_run.id))):
                get_run_logger().info(f"{taken} more late runs are cancelled: this one covers them")
    except httpx.HTTPError as error:
        get_run_logger().warning(f"late runs stay: {error!r}")


def run_stages(request: Request, report: Report) -> None:
    """Bring the report's project up to date stage by stage, until one fails."""
    mend(report.project)
    try:
        with closing(DvcProject(report.project.folder)) as dvc:
            for stage in when_free(lambda: dvc.upstream(f"export@{request.pipeline}"), say=get_run_logger().info):
                tried = run_stage.with_options(
                    retries=request.retries,
                    retry_delay_seconds=RETRY_DELAY,
                    retry_condition_fn=_was_killed(stage, report),
                )
                tried(stage, dvc, report, request)
                if not report.stages[stage.name].outcome.ok:
                    break
            report.compared = compared(report.project, request.pipeline, dvc.cache)
    finally:  # a DVC that was ended while it wrote: one by hand must find everything whole
        try:
            mend(report.project)
        except RunError as error:
            get_run_logger().warning(f"not checked for damage: {error}")


# Called in the main thread and never submitted: a signal is raised there only, and so ends the stage in order.
@task(task_run_name="{stage}", cache_policy=NO_CACHE)
def run_stage(stage: DvcStage, dvc: DvcProject, report: Report, request: Request) -> State[Any]:
    """Bring one stage up to date. What it says is the task's log, what it has done a bar."""
    started = time.monotonic()
    before = report.stages.get(stage.name)
    attempt = before.attempts + 1 if before else 1
    say = get_run_logger().info
    if attempt > 1:
        say(f"attempt {attempt} of {request.retries + 1}")
        mend(report.project)
    bar = ProgressArtifact(stage.name.replace("@", "-"))
    timeout = request.timeouts.get(stage.name.partition("@")[0])  # type: ignore[call-overload]  # any name may be asked
    outcome = bring_up_to_date(dvc, stage, say=say, follow=bar.follow, timeout=timeout)
    if outcome.ok:
        bar.complete()
    else:
        bar.show()
    seconds = time.monotonic() - started + (before.seconds if before else 0)
    report.stages[stage.name] = StageResult(outcome, seconds, attempt)
    if not outcome.ok:
        return Failed(message=outcome.message)
    return Completed(name="Completed" if outcome.word == "ran" else outcome.word, message=outcome.message)


def _was_killed(stage: DvcStage, report: Report) -> Callable[..., bool]:
    def may_go_on(task: object, task_run: object, state: object) -> bool:
        result = report.stages.get(stage.name)
        return bool(result and result.outcome.may_go_on)

    return may_go_on


def mend(project: Project) -> None:
    """Mend what a killed DVC left, and say so."""
    for mended in repair(project):
        get_run_logger().warning(mended)


def publish(report: Report) -> None:
    """Leave the report on the server, and its event. One that does not answer must not fail a training that is done."""
    report.keep()
    tell(report)
    try:
        create_markdown_artifact(markdown(report), key=f"training-{report.pipeline}", description=report.headline())
    except httpx.HTTPError as error:
        get_run_logger().warning(f"the report could not be sent to the server: {error!r}")
