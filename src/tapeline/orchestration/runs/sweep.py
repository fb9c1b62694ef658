"""Search over a pipeline's parameters: each trial is an isolated run in a process of its own, several at once.

    ranked = search(request, project, Terminal(project))

Every trial trains the same commit. Validation chooses; the tested split is left for the winner's own figure. Called
again after a kill, a sweep continues: ended trials are not run again, one that did not end resumes from its checkpoint.
"""

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any

from tapeline.config.project import Project
from tapeline.orchestration.isolation import permitted
from tapeline.orchestration.isolation.chosen import description, ref_for
from tapeline.orchestration.isolation.isolated_run import check
from tapeline.orchestration.isolation.measured import measured
from tapeline.orchestration.isolation.overrides import override
from tapeline.orchestration.isolation.worktree import worktree
from tapeline.orchestration.monitors.monitor import Monitor
from tapeline.orchestration.stages.child import end_all
from tapeline.orchestration.stages.likely import begin_imports
from tapeline.orchestration.sweeps.capacity import usual
from tapeline.orchestration.sweeps.order import InOrder
from tapeline.orchestration.sweeps.page import words
from tapeline.orchestration.sweeps.request import SweepRequest, corners
from tapeline.orchestration.sweeps.study import Study, Tried, study
from tapeline.orchestration.sweeps.trial import Trial, check_metric, start, value
from tapeline.repository.git import Git
from tapeline.runtime.errors import InputError, RunError
from tapeline.runtime.interpreter import with_this_code

POLL = 0.05
"""Seconds between two looks at the trials that run."""

IN_VAIN = 3
"""How many more trials may fail than succeed until the sweep ends."""


def search(request: SweepRequest, project: Project, monitor: Monitor) -> list[Tried]:
    """Go through the trials that are missing, and return all, the best first."""
    os.environ.update(with_this_code())  # the environment of trials is that of the stages before: one import for all
    git = Git(project.folder)
    ref = request.ref or git.main_branch()
    commit = git.commit_of(ref)
    with study(project, request, commit, say=monitor.say) as found:
        monitor.say(_told(git, request, found.commit, ref=ref, now=commit))
        _check_space(request, project, found.commit, monitor.say, begun=bool(found.ranked()))
        try:
            _run_trials(request, found, project, monitor)
        finally:
            if found.ranked():
                monitor.publish_sweep(repeatable(git, request, found.ranked()), found.ranked())
        return found.ranked()


def repeatable(git: Git, request: SweepRequest, ranked: Sequence[Tried]) -> SweepRequest:
    """Return the request with the `ref` by which a run trains now what the trials have trained."""
    return request.model_copy(update={"ref": ref_for(git, ranked[0].commit, ref=request.ref)})


def _told(git: Git, request: SweepRequest, commit: str, *, ref: str, now: str) -> str:
    """Return a sentence that names the commit that trials train. now: the one that `ref` is."""
    if commit == now:
        return description(git, commit, ref=ref, asked=bool(request.ref))
    return f"trains {commit[:10]}, with which this sweep began; {ref} is now at {now[:10]}: another --name trains that"


def _check_space(
    request: SweepRequest, project: Project, commit: str, say: Callable[[str], None], *, begun: bool
) -> None:
    """Check every bound and every choice with the commit's own code, and that the metric is measured at all.

    begun: whether a trial has come to a value, which knows the metric. Raises `InputError`.
    """
    with worktree(project, commit, name=f"check-{request.name}-{os.getpid()}", say=say) as tree:
        asked = corners(request.over)
        for values in asked:
            permitted.check(tree, {**request.overrides, **values})
            override(tree.project.folder, request.pipeline, {**request.overrides, **values})
            check(tree.project, request.pipeline)
        begin_imports()
        kinds = {(values.get("recipe"), values.get("dataset")): values for values in asked}
        for values in kinds.values() if not begun else ():
            override(tree.project.folder, request.pipeline, {**request.overrides, **values})
            names = measured(tree.project, request.pipeline, say=say)
            if names is not None:
                check_metric(request.metric, request.pipeline, names)


def _run_trials(request: SweepRequest, found: Study, project: Project, monitor: Monitor) -> None:
    """Run trials until there are enough. Raises `RunError` when more fail than succeed."""
    bar = monitor.bar(f"sweep-{request.name}-progress")
    trials = InOrder(request.parallel or usual())
    failures = 0
    with ExitStack() as stack:
        stack.callback(lambda: end_all([trial.child for trial in trials.living], signal.SIGTERM))
        stack.callback(lambda: _record_rest(trials, found, request))  # before others are ended, which go on later
        while (missing := request.trials - len(found.ranked())) > 0:
            monitor.look()
            while trials.has_room(missing):
                trial = start(request, found.commit, found.ask(), folder=found.folder, checkout=project.folder)
                trials.add(trial)
                monitor.say(f"trial {trial.trial.number}: {words(trial.trial.params)}")
            for trial in trials.ended():
                _tell(trial, request, monitor)
            if due := trials.due(missing):
                failures += not _recorded(due, found, request)
                bar.follow(_progress(request, found))
                if failures >= IN_VAIN + len(found.ranked()):
                    raise RunError(f"{failures} trials failed; the last one: {due.failure(request.metric)}")
            else:
                time.sleep(POLL)


def _tell(trial: Trial, request: SweepRequest, monitor: Monitor) -> None:
    """Say what came of a trial. Raises `InputError` for an unknown metric."""
    number, result, why = trial.trial.number, trial.result(), trial.failure(request.metric)
    if result is None or why:
        monitor.warn(f"trial {number} failed: {why}")
        return
    where = _branch(result) or result["verdict"]
    monitor.say(f"trial {number}: {request.metric} {value(result, request.metric):.6g}  {where}")


def _recorded(trial: Trial, found: Study, request: SweepRequest) -> bool:
    """Record what came of a trial; return whether it came to a value."""
    result = trial.result()
    if result is None or trial.failure(request.metric):
        found.failed(trial.trial)
        return False
    figure = value(result, request.metric)
    found.tell(trial.trial, value=figure, branch=_branch(result), gate=result["verdict"] or "")
    return True


def _record_rest(trials: InOrder, found: Study, request: SweepRequest) -> None:
    """Record what has ended by the end of a sweep that ends early: it is not run again."""
    for trial in trials.rest():
        with suppress(InputError):  # the metric is unknown, which is what ended the sweep
            _recorded(trial, found, request)


def _branch(result: Mapping[str, Any]) -> str:
    return result["branch"] or result["nothing_new"] or ""


def _progress(request: SweepRequest, found: Study) -> dict[str, Any]:
    """Return how far the sweep is, as a stage would tell it."""
    ranked = found.ranked()
    best = {f"best {request.metric}": ranked[0].value} if ranked else {}
    return {"event": "progress", "done": len(ranked), "total": request.trials, "unit": "trials", "metrics": best}
