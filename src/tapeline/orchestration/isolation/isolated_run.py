"""An isolated run: a ref in a Git worktree of its own, ending as one commit on `runs/<flow run>`.

with isolated(request, project, flow_run={"name": "brave-otter", "id": "…"}, say=print) as run:
    if not run.finished:          # else the record of an identical earlier run
        ...                       # bring run.project up to date
        run.commit()
    run.push()                    # both only on request, and for an earlier run's results too
    run.register()

The main checkout, its index and its HEAD are not touched. The stages run the ref's own code; the orchestration is
this code.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from tapeline.config.project import RUN_BRANCHES, Project
from tapeline.orchestration.isolation import permitted, registering
from tapeline.orchestration.isolation.chosen import description
from tapeline.orchestration.isolation.finished import finished_run, parameters
from tapeline.orchestration.isolation.overrides import override
from tapeline.orchestration.isolation.publishing import push
from tapeline.orchestration.isolation.run_commit import commit_run
from tapeline.orchestration.isolation.worktree import WHOLE, Worktree, worktree
from tapeline.orchestration.request import Request
from tapeline.orchestration.stages import pipeline as pipeline_check
from tapeline.orchestration.stages.child import Child, environment
from tapeline.orchestration.stages.dvc_stage import DvcProject
from tapeline.orchestration.stages.likely import begin_imports
from tapeline.repository import dvc_call, submodules
from tapeline.repository.dvc_errors import error_line
from tapeline.repository.dvc_lock import LOCK
from tapeline.repository.git import Git
from tapeline.repository.recorded import Recorded
from tapeline.runtime import processes
from tapeline.runtime.errors import InputError, RunError
from tapeline.runtime.locks import remove_unheld
from tapeline.runtime.streams import Say

SAME = ".same-"
"""Prefix of the locks that serialize identical runs."""

DAY = 86400.0


@dataclass(frozen=True)
class IsolatedRun:
    """A run in its worktree; `finished` is the record of an identical earlier run, if there is one."""

    request: Request
    tree: Worktree
    ref: str
    flow_run: Mapping[str, str]
    finished: Recorded | None
    say: Say

    @property
    def project(self) -> Project:
        """The project in the worktree."""
        return self.tree.project

    def commit(self) -> str:
        """Commit the results, and return the branch. Raises `RunError`."""
        with closing(DvcProject(self.project.folder)) as dvc:
            record = Recorded.read(_lock(self.project), self.request.pipeline, name=self.tree.branch, cache=dvc.cache)
            outputs = dvc.outputs_for_git(f"export@{self.request.pipeline}")
        commit = commit_run(self.tree, self.request, record, outputs, ref=self.ref, flow_run=self.flow_run)
        self.say(f"committed as {commit[:7]} on {self.tree.branch}")
        return self.tree.branch

    def push(self) -> None:
        """Push the run's files and branch on request: an earlier run's too, whose push may have failed.

        A commit that is on no local run branch is not pushed, which is reported. Raises `RunError`.
        """
        if not self.request.push:
            return
        branch, git = self._branch(), Git(self.project.folder)
        if not git.has(f"refs/heads/{branch}"):
            self.say(
                f"nothing was pushed: {branch} is not a branch of a run here; share it with `git push` and `dvc push`"
            )
            return
        if self.finished:  # DVC pushes what the worktree's dvc.lock lists
            git(*WHOLE, "checkout", "--quiet", "--force", "--detach", f"refs/heads/{branch}")
        push(replace(self.tree, name=branch.removeprefix(RUN_BRANCHES)), self.request.pipeline, say=self.say)

    def register(self) -> str | None:
        """Register the committed model on request, and return its tag: the existing one, if there is one.

        Raises `InputError` and `RunError`.
        """
        if not self.request.registered:
            return None
        remote = Git(self.project.folder).remote() if self.request.push else None
        branch = self._branch()
        revision = registering.commit_of(self.tree, branch)
        flow_run = self.flow_run["id"]
        return registering.register_run(
            self.tree, self.request.pipeline, branch, revision, flow_run=flow_run, push_to=remote, say=self.say
        )

    def _branch(self) -> str:
        return self.finished.name if self.finished else self.tree.branch


@contextmanager
def isolated(request: Request, project: Project, *, flow_run: Mapping[str, str], say: Say) -> Iterator[IsolatedRun]:
    """Yield the run, ready to begin, once no other process does an identical run.

    Raises `InputError` for an invalid ref, pipeline or override, before anything has run.
    """
    git = Git(project.folder)
    ref = request.ref or git.main_branch()
    commit = git.commit_of(ref)
    say(description(git, commit, ref=ref, asked=bool(request.ref)))
    with worktree(project, commit, name=flow_run["name"], say=say) as tree:
        permitted.check(tree, request.overrides)
        override(tree.project.folder, request.pipeline, request.overrides)
        with _alone(tree, request.pipeline, say):
            run = partial(IsolatedRun, request, tree, ref, flow_run, say=say)
            finished = finished_run(tree, request.pipeline, ref=ref, say=say)
            if request.registered:
                registering.check(tree, request.pipeline, finished, pushed=request.push)
            if not finished:
                submodules.check(tree.project.folder, request.pipeline)
                begin_imports()
                check(tree.project, request.pipeline)
                bring_raw_data(tree.project, request.pipeline, say)
            yield run(finished=finished)


def check(project: Project, pipeline: str) -> None:
    """Check a pipeline of a worktree with the worktree's own code. Raises `InputError` with the check's one line."""
    code = code_of(project)
    if code is None:
        pipeline_check.checked(pipeline, start=project.folder)
        return
    with Child.of_module(
        pipeline_check.__file__, [pipeline], cwd=project.folder, env=environment(), code=code, ready=True
    ) as answer:
        said = [line for line in answer.lines() if line and line.strip()]
    if answer.returncode:
        raise InputError(said[-1] if said else f"the check of {pipeline} failed")


def code_of(project: Project) -> Path | None:
    """Return the folder with the worktree's own `tapeline` package; None where the installed one runs."""
    top = Git(project.folder).top()
    return next((f / "src" for f in (project.folder, top) if (f / "src" / "tapeline").is_dir()), None)


@contextmanager
def _alone(tree: Worktree, pipeline: str, say: Say) -> Iterator[None]:
    """Wait for an identical run: its result can then be reused."""
    folder = tree.project.worktrees
    mine = folder / f"{SAME}{tree.commit[:12]}-{parameters(tree.project, pipeline)}"
    with processes.exclusive(mine, waiting=say):
        tidy(folder)
        yield


def tidy(folder: Path) -> None:
    """Remove the unheld locks of old runs; another run may do the same concurrently."""
    for lock in folder.glob(f"{SAME}*"):
        with suppress(FileNotFoundError):
            if time.time() - lock.stat().st_mtime > DAY:
                remove_unheld(lock)


def bring_raw_data(project: Project, pipeline: str, say: Say) -> None:
    """Check out what was added with `dvc add` into the worktree: from the cache, else from DVC's remote.

    Raises `InputError` for objects of the cache, or of the remote, that are not what their MD5 says.
    """
    files = _raw_data(project, pipeline)
    if not files or not _dvc(project, "checkout", files):
        return
    say("dvc checkout: some of the raw data is missing")
    failed = _dvc(project, "fetch", files)
    if not failed:
        _raw_data(project, pipeline, fetched=True)
        failed = _dvc(project, "checkout", files)
    if failed:
        raise RunError(f"the raw data could not be fetched: {failed}; run `dvc pull`, or add the data again")


def _raw_data(project: Project, pipeline: str, *, fetched: bool = False) -> list[str]:
    with closing(DvcProject(project.folder)) as dvc:
        return [str(path) for path in dvc.raw_data(f"export@{pipeline}", fetched=fetched)]


def _dvc(project: Project, verb: str, files: list[str]) -> str:
    """Call DVC; return why it failed, empty if it did not."""
    done = dvc_call.called(project.folder, "--quiet", verb, *files, env=environment())
    return error_line(done.stderr) if done.returncode else ""


def _lock(project: Project) -> str:
    path = project.folder / LOCK
    return path.read_text(encoding="utf-8") if path.exists() else ""
