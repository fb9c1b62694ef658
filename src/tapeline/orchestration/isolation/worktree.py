"""Git worktrees of isolated runs: `.tapeline/worktrees/<flow run>/`, with DVC's cache shared.

with worktree(project, commit, name="brave-otter", say=print) as tree:
    tree.project       # this project, as it is at the commit

A failed run leaves its worktree (see `tapeline.repository.worktrees`), an invalid request does not. The newest few
are kept. The next run removes what a crash left.
"""

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tapeline.config.project import PARAMS, RUN_BRANCHES, Project
from tapeline.orchestration.isolation.byte_code import share_byte_code
from tapeline.repository.dvc_errors import in_one_line
from tapeline.repository.git import Git
from tapeline.repository.places import dvc_top
from tapeline.repository.shared_cache import share_cache
from tapeline.repository.worktrees import FAILED, LOCK, beside, leftovers, one_at_a_time, remove
from tapeline.runtime import files
from tapeline.runtime.errors import InputError
from tapeline.runtime.streams import Say

KEPT = 3
"""How many worktrees of failed runs are kept for inspection."""

LONGEST = 100
"""Characters of a flow run's name that its branch and its folder have."""

WHOLE = (
    *("-c", "core.sparseCheckout=false", "-c", "core.autocrlf=false", "-c", "core.eol=lf"),
    *("-c", "submodule.recurse=false"),
)
"""A worktree has every file of its commit, with its bytes, whatever the checkout leaves out or converts.

It has no files of submodules, into which `submodule.recurse` would have Git look.
"""


@dataclass(frozen=True)
class Worktree:
    """One run's worktree: the flow run's name made valid for a branch, the commit, and the project in it."""

    name: str
    commit: str
    project: Project

    @property
    def branch(self) -> str:
        """The branch on which the run will end."""
        return f"{RUN_BRANCHES}{self.name}"

    @property
    def checkout(self) -> Git:
        """Git in the checkout that the worktree belongs to, where the path of a remote such as `../origin` leads."""
        return Git(self.project.worktrees)


@contextmanager
def worktree(project: Project, commit: str, *, name: str, say: Say) -> Iterator[Worktree]:
    """Yield a worktree at `commit`, after removing what crashed runs have left.

    The worktree is kept, and this reported, when the block raises an `Exception`. Invalid input leaves nothing to
    inspect, so it is removed then; so it is on a signal, since the checkpoint is in the project's shared folder. Raises
    `RunError` if Git cannot create one, `InputError` where DVC could not use it.
    """
    git = Git(project.folder)
    _check_usable(git)
    folder = project.worktrees
    files.make_folder(folder)
    with one_at_a_time(folder, say):
        clean(project, say=say)
        name = _free_name(git, folder, name)
        held = os.fdopen(files.own(beside(folder / name, LOCK), os.O_WRONLY | os.O_CREAT), "wb")
        fcntl.flock(held, fcntl.LOCK_EX)
        try:
            inside = _made(git, folder / name, commit, project, say)
        except BaseException:
            held.close()
            raise
    failure = ""
    try:
        yield Worktree(name, commit, Project.find(inside))
    except InputError:
        raise
    except Exception as error:
        failure = str(error) or repr(error)
        raise
    finally:
        with one_at_a_time(folder, say):
            if failure:
                files.write_text(beside(folder / name, FAILED), failure + "\n")
                say(f"the worktree is kept for inspection: {folder / name}")
            else:
                remove(git, folder / name)
            held.close()
            clean(project, say=say)


def clean(project: Project, *, say: Say) -> None:
    """Remove the worktrees of crashed runs, and of failed ones beyond the newest `KEPT`."""
    git, there = Git(project.folder), leftovers(project.worktrees)
    kept = {left.name for left in [left for left in there if left.failed][-KEPT:]}
    for left in there:
        if left.held or left.name in kept:
            continue
        if not left.failed and left.folder.exists():
            say(f"removing the worktree of a crashed run: {left.name}")
        remove(git, left.folder)


def _check_usable(git: Git) -> None:
    """Raise `InputError` for a submodule, and where no run could be committed.

    DVC takes a submodule's `core.worktree` for the top of each of its worktrees.
    """
    if git.ask("config", "--local", "core.worktree") is not None:
        raise InputError(
            f"{git.folder} is in a submodule, or Git has a core.worktree for it: DVC finds no repository in its "
            "worktrees; start isolated runs and sweeps in a separate clone"
        )
    runs = RUN_BRANCHES.rstrip("/")
    if git.has(f"refs/heads/{runs}"):
        raise InputError(f"a branch is called {runs}, so that none can be called {RUN_BRANCHES}NAME: rename it")


def _made(git: Git, path: Path, commit: str, project: Project, say: Say) -> Path:
    """Create the worktree and return the project's folder in it; leave nothing behind on failure.

    A worktree is inside the checkout, so files that it lacks would be found there: none may be missing.
    """
    top = git.top()
    dvc = (dvc_top(project.folder) or top) / ".dvc"
    inside, own_dvc = path / project.folder.relative_to(top), path / dvc.relative_to(top)
    try:
        git(*WHOLE, "worktree", "add", "--quiet", "--detach", str(path), commit)
        for needed in (inside / PARAMS, own_dvc):
            if not needed.exists():
                raise InputError(f"commit {commit[:7]} has no {needed.relative_to(path)}: give a ref that has it")
        with in_one_line(InputError):
            share_cache(dvc, own_dvc, main=_main(git, top) / dvc.relative_to(top), say=say)
        share_byte_code(top, path)
        return inside
    except BaseException:
        remove(git, path)
        raise


def _main(git: Git, top: Path) -> Path:
    """Return the top of the main checkout, if the one at `top` is a worktree of its; else `top`."""
    common = git.common()
    return common.parent.resolve() if common.name == ".git" else top


def _free_name(git: Git, folder: Path, wanted: str) -> str:
    """Return the flow run's name made valid for a branch, with a number if that branch exists."""
    plain = _valid(wanted)
    name, number = plain, 1
    while _is_taken(folder / name) or git.has(f"refs/heads/{RUN_BRANCHES}{name}"):
        number += 1
        name = f"{plain}-{number}"
    return name


def _valid(wanted: str) -> str:
    """Return a name of which Git makes a branch, and which is no name of a file next to a worktree.

    >>> _valid('new "dvc.lock"'), _valid("a..b/c.failed."), _valid("...")
    ('new-dvc-lock', 'a-.b-c-failed', 'run')
    """
    plain = re.sub(r"[^A-Za-z0-9._-]+|\.(?=\.)", "-", wanted)[:LONGEST].strip("-.")
    return re.sub(r"\.(?=(lock|failed)$)", "-", plain) or "run"


def _is_taken(path: Path) -> bool:
    return any(one.exists() for one in (path, beside(path, LOCK), beside(path, FAILED)))
