"""Bring a pipeline up to date: one Prefect task per stage.

    python -m flows.training --pipeline digits

DVC decides what is stale and is the only cache. A stage that is not starts no process; one that is runs as
`dvc repro` would run it, so that both leave the same bytes and the same `dvc.lock`. A stage that fails fails its
task and the flow with its own last line.
"""

import sys

if __name__ == "__main__":  # help and mistakes are answered before Prefect is imported, which takes seconds
    from flows.command import main

    sys.exit(main())

import time
from typing import Any

import httpx
from prefect import flow, get_run_logger, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from flows import log
from flows.dvc_stage import DvcProject, DvcStage
from flows.execution import bring_up_to_date, when_free
from flows.pipeline import checked
from flows.progress_artifact import ProgressArtifact
from flows.report import Report, StageResult, markdown
from tapeline.errors import TapelineError
from tapeline.repair import repair


@flow(name="training")
def training(pipeline: str) -> Report | State[Any]:
    """Ingest, train, validate and export a pipeline of the working directory's `params.yaml`; only what is stale.

    Whoever calls it gets the `Report`, or a `TapelineError`: `PipelineFailed` when a stage failed.
    """
    log.drop_repetition()
    try:
        report = Report(pipeline, checked(pipeline))
        for mended in repair(report.project):
            get_run_logger().warning(mended)
        dvc = DvcProject(report.project.folder)
        for stage in when_free(lambda: dvc.upstream(f"export@{pipeline}"), say=get_run_logger().info):
            run_stage(stage, dvc, report)
            if not report.stages[stage.name].outcome.ok:
                break
        publish(report)
        report.check()
    except TapelineError as error:
        return Failed(message=str(error), data=error)
    return Completed(message=report.headline(), data=report)


# Called in the main thread and never submitted: a signal is raised there only, and so ends the stage in order.
@task(task_run_name="{stage}", cache_policy=NO_CACHE)
def run_stage(stage: DvcStage, dvc: DvcProject, report: Report) -> State[Any]:
    """Bring one stage up to date. What it says is the task's log, what it has done a bar."""
    started = time.monotonic()
    bar = ProgressArtifact(stage.name.replace("@", "-"))
    outcome = bring_up_to_date(dvc, stage, say=get_run_logger().info, follow=bar.follow)
    bar.show()
    report.stages[stage.name] = StageResult(outcome, time.monotonic() - started)
    if not outcome.ok:
        return Failed(message=outcome.message)
    return Completed(name="Completed" if outcome.word == "ran" else outcome.word, message=outcome.message)


def publish(report: Report) -> None:
    """Leave the report on the server. One that does not answer must not fail a training that is done."""
    try:
        create_markdown_artifact(markdown(report), key=f"training-{report.pipeline}", description=report.headline())
    except httpx.HTTPError as error:
        get_run_logger().warning(f"the report is not on the server: {error!r}")
