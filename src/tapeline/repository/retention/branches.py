"""Branches `runs/*`: each holds the parameters and the `dvc.lock` of one isolated run."""

from collections.abc import Iterator
from functools import partial

from tapeline.config.project import RUN_BRANCHES
from tapeline.repository import own_runs
from tapeline.repository.git import Git
from tapeline.repository.retention.item import Item, Limits

HEADS = "refs/heads/"


def run_branches(git: Git, limits: Limits) -> Iterator[Item]:
    """Yield the branches of runs, newest first.

    A branch is kept if it is among the newest, if a tag or a named branch contains its commit, if a worktree has it
    checked out, or if its commit is not that of a run of this clone: somebody works there.
    """
    form = "--format=%(refname) %(objectname) %(worktreepath)%00"  # a path may have a line feed
    listed = git("for-each-ref", "--sort=-committerdate", form, HEADS + RUN_BRANCHES)
    runs = own_runs.noted(git)
    for place, line in enumerate(filter(None, listed.split("\0"))):
        ref, commit, worktree = line.removeprefix("\n").split(" ", 2)
        name = ref.removeprefix(HEADS)
        if commit not in runs:
            kept = "not the commit of a run of this clone"
        elif worktree:
            kept = f"checked out in {worktree}"
        elif holder := _holder(git, ref):
            kept = holder
        else:
            kept = f"one of the newest {limits.runs}" if place < limits.runs else ""
        yield Item(kind="branch", name=name, size=0, kept=kept, remove=partial(git, "update-ref", "-d", ref, commit))


def _holder(git: Git, ref: str) -> str:
    """Return the tag or the named branch from which a run's commit is reachable."""
    for kind, where in (("tag", "refs/tags/"), ("branch", HEADS)):
        names = git.lines("for-each-ref", "--contains", ref, "--format=%(refname)", where)
        named = [name.removeprefix(where) for name in names if not name.startswith(HEADS + RUN_BRANCHES)]
        if named:
            return f"{kind} {named[0]}"
    return ""
