"""Push a finished run: its files to DVC's remote and its branch to Git's, as far as these exist."""

import subprocess
from collections.abc import Callable
from contextlib import closing

from tapeline.orchestration.isolation.worktree import Worktree
from tapeline.orchestration.stages.child import environment
from tapeline.orchestration.stages.dvc_stage import DvcProject
from tapeline.orchestration.stages.execution import when_free
from tapeline.repository import dvc_call
from tapeline.repository.dvc.settings import Settings
from tapeline.repository.dvc_errors import error_line
from tapeline.repository.git import TRANSFER, Git
from tapeline.runtime.errors import RunError


def push(tree: Worktree, pipeline: str, *, say: Callable[[str], None]) -> None:
    """Push the outputs, then the branch, and report where to, or that there is no remote.

    Raises `RunError` with how to retry: the commit already exists. So it does, before anything is pushed, for
    files that are nowhere: DVC warns of them, and ends with status 0.
    """
    git, folder = Git(tree.project.folder), tree.project.folder
    settings = Settings.around(folder)
    storage = settings.default_remote
    if storage:
        with closing(DvcProject(folder)) as dvc:
            lost = when_free(lambda: dvc.lost(f"export@{pipeline}", raw_data=True), say=say)
        if lost:
            raise RunError(
                f"nothing pushed: {tree.branch} records {', '.join(lost[:3])}{' and others' * (len(lost) > 3)}, and "
                "neither DVC's cache nor its remote has the files"
            )
        push_it = ("--quiet", "push", "--with-deps", f"export@{pipeline}")
        try:
            done = dvc_call.called(folder, *push_it, env=environment(), timeout=TRANSFER)
        except subprocess.TimeoutExpired:
            raise RunError(f"dvc push to {storage}: did not finish within {TRANSFER:g} s{_again(tree)}") from None
        if done.returncode:
            raise RunError(f"dvc push to {storage}: {error_line(done.stderr or done.stdout)}{_again(tree)}")
        say(f"pushed the files to DVC's remote {storage}")
    remote = git.remote()
    if remote:
        try:
            tree.checkout("push", "--quiet", remote, f"refs/heads/{tree.branch}", timeout=TRANSFER)
        except RunError as error:
            raise RunError(f"{error}{_again(tree)}") from None
        say(f"pushed {tree.branch} to Git's remote {remote}")
    if not storage and settings.remotes:
        say(f"DVC has no default remote: nothing was pushed there; `dvc remote default {settings.remotes[0]}` sets it")
    for what, found in (("DVC", storage or settings.remotes), ("Git", remote)):
        if not found:
            say(f"{what} has no remote: nothing was pushed there")


def _again(tree: Worktree) -> str:
    return f"; the run is committed on {tree.branch}: run the same again, which only pushes it"
