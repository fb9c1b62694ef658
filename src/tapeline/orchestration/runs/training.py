"""Bring a pipeline up to date stage by stage: in place, or as an isolated run.

    report = train(request, project, Terminal(project))

DVC decides what is stale and is the only cache. A stage that is not starts no process; one that is runs as
`dvc repro` would run it, so that both leave the same bytes and the same `dvc.lock`. A stage that fails ends the run
with its own last line; one that was killed is tried again and resumes from its checkpoint.
"""

import time
from collections.abc import Callable
from contextlib import closing

from tapeline.config.project import Project
from tapeline.orchestration.monitors.monitor import Monitor
from tapeline.orchestration.reports.comparison import compared
from tapeline.orchestration.reports.summary import Report, StageResult
from tapeline.orchestration.request import Request
from tapeline.orchestration.stages.dvc_stage import DvcProject, DvcStage
from tapeline.orchestration.stages.execution import bring_up_to_date, when_free
from tapeline.orchestration.stages.likely import note_unchanged
from tapeline.orchestration.stages.outcome import UNCHANGED, Outcome
from tapeline.orchestration.stages.pipeline import checked
from tapeline.repository import described
from tapeline.repository.repair import repair
from tapeline.runtime import imports
from tapeline.runtime.errors import RunError


def train(request: Request, project: Project, monitor: Monitor) -> Report:
    """Bring the request's pipeline up to date, and return the report.

    Raises `PipelineFailed` if a stage failed, another `TapelineError` for what kept the stages from running.
    """
    return _train_isolated(request, project, monitor) if request.isolated else _train_in_place(request, monitor)


def _train_in_place(request: Request, monitor: Monitor) -> Report:
    """Bring the checkout up to date as it stands."""
    report = Report(request.pipeline, checked(request.pipeline), request)
    _run_stages(request, report, monitor)
    if all(stage.outcome == UNCHANGED for stage in report.stages.values()):
        note_unchanged(report.project, request.pipeline)
    _publish(report, monitor)
    report.check()
    return report


def _train_isolated(request: Request, project: Project, monitor: Monitor) -> Report:
    """Train a ref in a worktree and commit the result, unless a finished run has made the same."""
    from tapeline.orchestration.isolation.isolated_run import isolated  # the registry, with NumPy

    with isolated(request, project, flow_run=monitor.run, say=monitor.say) as run:
        report = Report(request.pipeline, run.project, request, finished=run.finished)
        if run.finished:
            report.keep()
            run.push()
            report.version = run.register()
            return report
        _run_stages(request, report, monitor)
        try:
            if report.ok:
                report.branch = run.commit()
                run.push()
                report.version = run.register()
        finally:
            _publish(report, monitor)
        report.check()
        return report


def _run_stages(request: Request, report: Report, monitor: Monitor) -> None:
    """Bring the report's project up to date stage by stage, until one fails."""
    _repair(report.project, monitor)
    is_whole = False
    try:
        with closing(DvcProject(report.project.folder)) as dvc:
            with imports.lasting():  # DVC imports a part of itself when it reads its files
                stages = when_free(lambda: dvc.upstream(f"export@{request.pipeline}"), say=monitor.say)
            for stage in stages:
                attempt = _attempt(stage, dvc, request, report, monitor)
                monitor.run_stage(stage.title, attempt, retries=request.retries)
                if not report.stages[stage.title].outcome.ok:
                    break
            is_whole = report.ok
            report.compared = compared(report.project, request.pipeline, dvc.cache)
    finally:
        if not is_whole:
            _repair_again(report.project, monitor)


def _attempt(
    stage: DvcStage, dvc: DvcProject, request: Request, report: Report, monitor: Monitor
) -> Callable[[], Outcome]:
    """Return a function that brings one stage up to date, writes the result into the report and returns it."""
    kind = stage.name.partition("@")[0]
    timeout = request.timeouts.get(kind)  # type: ignore[call-overload]  # any name may be asked

    def attempt() -> Outcome:
        started = time.monotonic()
        before = report.stages.get(stage.title)
        number = before.attempts + 1 if before else 1
        if number > 1:
            monitor.say(f"attempt {number} of {request.retries + 1}")
            _repair(report.project, monitor)
        bar = monitor.bar(stage.name)
        outcome = bring_up_to_date(
            dvc,
            stage,
            project=report.project,
            say=monitor.say,
            follow=bar.follow,
            timeout=timeout,
            look=monitor.look,
        )
        if outcome.ok:
            _describe(stage, outcome, report, monitor)
            bar.complete()
        else:
            bar.show()
        seconds = time.monotonic() - started + (before.seconds if before else 0)
        report.stages[stage.title] = StageResult(outcome, seconds, number)
        return outcome

    return attempt


def _describe(stage: DvcStage, outcome: Outcome, report: Report, monitor: Monitor) -> None:
    """Bring the machine's description of a training that was not made here, for who commits or registers it."""
    folder, pipeline = report.project.folder, report.pipeline
    is_here = (folder / described.path(pipeline)).exists()
    if stage.title != f"train@{pipeline}" or outcome.word == "ran" or (is_here and outcome.word != "restored"):
        return
    if branch := described.bring(folder, pipeline):
        monitor.say(f"{described.path(pipeline)} is that of {branch}, which has trained this")


def _repair(project: Project, monitor: Monitor) -> None:
    """Repair what a killed DVC left, and say so."""
    for repaired in repair(project):
        monitor.warn(repaired)


def _repair_again(project: Project, monitor: Monitor) -> None:
    """Repair what a DVC left that was ended while it wrote: one by hand must find everything whole."""
    try:
        _repair(project, monitor)
    except RunError as error:
        monitor.warn(f"not checked for damage: {error}")


def _publish(report: Report, monitor: Monitor) -> None:
    report.keep()
    monitor.publish(report)
