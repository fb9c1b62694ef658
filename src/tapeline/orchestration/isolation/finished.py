"""Find a finished run with the data, parameters, code and environment of a run that is about to begin."""

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

from tapeline.config.project import PARAMS, RUN_BRANCHES, Project
from tapeline.orchestration.isolation.worktree import Worktree
from tapeline.orchestration.stages.dvc_stage import DvcProject
from tapeline.parsing import yaml_text
from tapeline.registry.ours import Ours
from tapeline.repository.dvc_lock import LOCK
from tapeline.repository.git import Git
from tapeline.repository.recorded import Recorded
from tapeline.runtime import files
from tapeline.runtime.errors import InputError, RunError, TapelineError

TRAILER = "Parameters"
"""The trailer of a run's commit message by which its branch is found without reading its files."""


def parameters(project: Project, pipeline: str) -> str:
    """Return a hash of everything in `params.yaml` about a pipeline, valid or not."""
    try:
        content = yaml_text.parsed(files.read_bytes(project.folder / PARAMS))
        entry = content["pipelines"][pipeline]
        concerned = [pipeline, entry, content["datasets"].get(entry["dataset"])]
        text = json.dumps(concerned, sort_keys=True, default=str)
    except (InputError, ValueError, KeyError, TypeError, AttributeError):  # the check that follows reports it
        text = json.dumps([pipeline])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def finished_run(tree: Worktree, pipeline: str, *, ref: str, say: Callable[[str], None]) -> Recorded | None:
    """Return the record of what the worktree would produce: the ref's own (`main at 8607dbd`), or a branch's.

    DVC decides, by its own comparison of commands, parameters, code and data. A branch counts if its commit was built
    here, or is signed by one who may register by the trust policy; of others one line says why they do not. A record
    counts while DVC's cache or its remote has its files; of one that has lost them a line says so. The worktree's
    `dvc.lock` is restored afterwards. Raises `InputError` for a policy that cannot be read.
    """
    lock, at = tree.project.folder / LOCK, f"{ref} at {tree.commit[:7]}"
    if cache := _recorded(tree, pipeline, name=at, say=say):
        return Recorded.read(files.read_bytes(lock), pipeline, name=at, cache=cache)
    own = files.read_bytes(lock) if lock.exists() else None
    git = Git(tree.project.folder)
    try:
        for branch, commit in ours(tree, pipeline, git, say):
            if content := _lock_of(git, branch, commit, say):
                lock.write_bytes(content)
                if cache := _recorded(tree, pipeline, name=branch, say=say):
                    return Recorded.read(content, pipeline, name=branch, cache=cache)
    finally:
        if own is None:
            lock.unlink(missing_ok=True)
        else:
            lock.write_bytes(own)
    return None


def _lock_of(git: Git, branch: str, commit: str, say: Callable[[str], None]) -> bytes | None:
    """Return the `dvc.lock` of a branch's commit; None, and a line that says so, if Git cannot read it."""
    try:
        return git.blob(commit, f"./{LOCK}")
    except RunError as error:
        say(f"ignoring {branch}: Git cannot read its {LOCK}: {error}")
        return None


def ours(tree: Worktree, pipeline: str, git: Git, say: Callable[[str], None]) -> Iterator[tuple[str, str]]:
    """Yield the branches with the worktree's parameters that count, and their commits; say why others do not."""
    whose, foreign = Ours(tree.project.folder, pipeline), []
    for branch, commit in branches(git, parameters(tree.project, pipeline)):
        if why := whose.why_not(commit):
            foreign.append((branch, why))
        else:
            yield branch, commit
    if foreign:
        names = ", ".join(branch for branch, _ in foreign[:3]) + (" and others" if len(foreign) > 3 else "")
        count = "has" if len(foreign) == 1 else "have"
        say(f"{names} {count} these parameters, but cannot be trusted: {foreign[0][1]}")


def branches(git: Git, parameters: str) -> Iterator[tuple[str, str]]:
    """Yield the branches of runs with these parameters and their commits, local and fetched ones, newest first."""
    form = f"--format=%(trailers:key={TRAILER},valueonly,separator=%2C) %(objectname) %(refname:strip=2)"
    patterns = (f"refs/heads/{RUN_BRANCHES}", f"refs/remotes/*/{RUN_BRANCHES}*")
    for line in git.lines("for-each-ref", "--sort=-committerdate", form, *patterns):
        found, commit, branch = (*line.split(" ", 2), "", "")[:3]
        if found == parameters:
            yield branch, commit


def _recorded(tree: Worktree, pipeline: str, *, name: str, say: Callable[[str], None]) -> Path | None:
    """Return DVC's cache if the worktree's `dvc.lock` is up to date and no file of it is lost, else say what is.

    name: whose record it is.
    """
    stage = f"export@{pipeline}"
    try:
        with closing(DvcProject(tree.project.folder)) as dvc:
            if not dvc.is_recorded(stage):
                return None
            try:
                lost = dvc.lost(stage)
            except RunError as error:
                say(f"{name} has this result, but some of its files are not in DVC's cache ({error}): running it again")
                return None
            if lost:
                say(f"{name} has this result, but its files are gone, such as {lost[0]}: running it again")
            return None if lost else dvc.cache
    except TapelineError:  # the run that follows reports it
        return None
