"""Search over a pipeline's parameters: each trial is an isolated run of the training flow, several at once.

    tapeline sweep --pipeline digits --max accuracy --trials 20 --parallel 2 \\
        --over 'params.learning_rate={low: 0.0005, high: 0.01, log: true}' --over 'train.batch_size=[32, 64, 128]'

Every trial trains the same commit. Validation chooses; the tested split is left for the winner's own figure. Called
again after a kill, a sweep goes on: trials that ended are not run again, one that did not resumes from its checkpoint.
"""

import os
import signal
import time
from contextlib import ExitStack
from typing import Any

import httpx
from prefect import flow, get_run_logger, runtime
from prefect.artifacts import create_markdown_artifact, create_table_artifact
from prefect.client.schemas.objects import State
from prefect.states import Failed

from tapeline.config.project import Project
from tapeline.orchestration.connection import log
from tapeline.orchestration.isolation.isolated_run import check
from tapeline.orchestration.isolation.measured import measured
from tapeline.orchestration.isolation.overrides import override
from tapeline.orchestration.isolation.worktree import worktree
from tapeline.orchestration.reports.progress_artifact import ProgressArtifact
from tapeline.orchestration.request import Name, Overrides, Ref
from tapeline.orchestration.schedules.liveness import begin, hold
from tapeline.orchestration.stages.child import end_all
from tapeline.orchestration.sweeps.page import headline, page, table, words
from tapeline.orchestration.sweeps.request import Goal, Parallel, Space, SweepRequest, Trials, corners
from tapeline.orchestration.sweeps.study import Study, Tried, study
from tapeline.orchestration.sweeps.trial import Trial, check_metric, start, value
from tapeline.repository.git import Git
from tapeline.runtime.errors import InputError, RunError, TapelineError

begin()

POLL = 0.5
"""Seconds between two looks at the trials that run."""

IN_VAIN = 3
"""How many more trials may fail than succeed until the sweep ends."""


@flow(name="sweep")
def sweep(
    pipeline: Name,
    over: Space,
    metric: str,
    goal: Goal,
    trials: Trials = 20,
    parallel: Parallel = 1,
    ref: Ref = "",
    overrides: Overrides | None = None,
    name: str = "",
    seed: int = 0,
) -> list[Tried] | State[Any]:
    """Search over a pipeline's parameters, and return what was tried, the best first.

    Args:
        pipeline: A name under `pipelines` in params.yaml.
        over: For each setting a range, such as {"low": 1, "high": 9}, or a list of choices.
        metric: The metric of the validation split by which trials are ranked.
        goal: Whether more of it is better (max) or less (min).
        trials: How many to run in all; more in a later call go on.
        parallel: How many run at once. Each uses the whole machine unless TensorFlow is told otherwise.
        ref: The branch, tag or commit that is trained. Empty: the main branch as it is when the sweep begins.
        overrides: Other values for settings that are not searched over.
        name: What the sweep is called. Empty: as the pipeline.
        seed: Of the choice of values.
    """
    log.drop_repetition()
    try:
        request = SweepRequest.of(
            pipeline=pipeline,
            over=over,
            metric=metric,
            goal=goal,
            trials=trials,
            parallel=parallel,
            ref=ref,
            overrides=overrides or {},
            name=name,
            seed=seed,
        )
        return search(request, Project.find())
    except TapelineError as error:
        return Failed(message=str(error), data=error)


def search(request: SweepRequest, project: Project) -> list[Tried]:
    """Go through the trials that are missing, and return all, the best first."""
    git = Git(project.folder)
    commit = git.commit_of(request.ref or git.main_branch())
    say = get_run_logger().info
    hold(project, str(runtime.flow_run.id))
    with study(project, request, commit, say=say) as found:
        check_space(request, project, found.commit, begun=bool(found.ranked()))
        try:
            run_trials(request, found, project)
        finally:
            publish(request, found)
        return found.ranked()


def check_space(request: SweepRequest, project: Project, commit: str, *, begun: bool) -> None:
    """Check every bound and every choice with the commit's own code, and that the metric is measured at all.

    begun: whether a trial has come to a value, which knows the metric. Raises `InputError`.
    """
    say = get_run_logger().info
    with worktree(project, commit, name=f"check-{request.name}-{os.getpid()}", say=say) as tree:
        asked = corners(request.over)
        for values in asked:
            override(tree.project.folder, request.pipeline, {**request.overrides, **values})
            check(tree.project, request.pipeline)
        kinds = {(values.get("recipe"), values.get("dataset")): values for values in asked}
        for values in kinds.values() if not begun else ():
            override(tree.project.folder, request.pipeline, {**request.overrides, **values})
            names = measured(tree.project, request.pipeline, say=say)
            if names is not None:
                check_metric(request.metric, request.pipeline, names)


def run_trials(request: SweepRequest, found: Study, project: Project) -> None:
    """Run trials until there are enough. Raises `RunError` when more fail than succeed."""
    bar = ProgressArtifact(f"sweep-{request.name}-progress")
    running: list[Trial] = []
    failures = 0
    with ExitStack() as stack:
        stack.callback(lambda: end_all([trial.child for trial in running], signal.SIGTERM))
        while running or len(found.ranked()) < request.trials:
            while len(running) < min(request.parallel, request.trials - len(found.ranked())):
                trial = start(request, found.commit, found.ask(), folder=found.folder, checkout=project.folder)
                running.append(trial)
                get_run_logger().info(f"trial {trial.trial.number}: {words(trial.trial.params)}")
            time.sleep(POLL)
            for trial in [trial for trial in running if trial.done]:
                running.remove(trial)
                failures += not settled(trial, found, request)
                bar.follow(progress(request, found))
                if failures >= IN_VAIN + len(found.ranked()):
                    raise RunError(f"{failures} trials have failed; the last: {trial.last_words()}")


def settled(trial: Trial, found: Study, request: SweepRequest) -> bool:
    """Record what came of a trial; return whether it came to a value. Raises `InputError` for an unknown metric."""
    number, result = trial.trial.number, trial.result()
    if not result or not result["metrics"]:
        found.failed(trial.trial)
        get_run_logger().warning(f"trial {number} failed: {trial.last_words()}")
        return False
    try:
        figure = value(result, request.metric)
    except InputError:
        found.failed(trial.trial)
        raise
    branch = result["branch"] or result["nothing_new"] or ""
    found.tell(trial.trial, value=figure, branch=branch, gate=result["verdict"] or "")
    get_run_logger().info(f"trial {number}: {request.metric} {figure:.6g}  {branch or result['verdict']}")
    return True


def progress(request: SweepRequest, found: Study) -> dict[str, Any]:
    """Return how far the sweep is, as a stage would tell it."""
    ranked = found.ranked()
    best = {f"best {request.metric}": ranked[0].value} if ranked else {}
    return {"event": "progress", "done": len(ranked), "total": request.trials, "unit": "trials", "metrics": best}


def publish(request: SweepRequest, found: Study) -> None:
    """Leave the ranked table and the page on the server; one that does not answer must not undo the sweep."""
    ranked = found.ranked()
    if not ranked:
        return
    try:
        create_table_artifact(table(request, ranked), key=f"sweep-{request.name}-table", description="best first")
        create_markdown_artifact(
            page(request, ranked), key=f"sweep-{request.name}", description=headline(request, ranked)
        )
    except httpx.HTTPError as error:
        get_run_logger().warning(f"the sweep's page could not be sent to the server: {error!r}")
