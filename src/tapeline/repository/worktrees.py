"""The Git worktrees of isolated runs on disk: `.tapeline/worktrees/<flow run>/`.

Next to each is `<flow run>.lock`, which its process holds: the kernel releases it however the process ends. A run that
succeeds removes its worktree; one that fails leaves `<flow run>.failed` next to it. Any other worktree whose lock is
not held was left by a crash.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tapeline.repository.git import Git
from tapeline.runtime import files, processes
from tapeline.runtime.locks import is_held

LOCK, FAILED = ".lock", ".failed"


@dataclass(frozen=True)
class Leftover:
    """An existing worktree, whose run is active (`held`), has failed (`failed`), or crashed."""

    folder: Path
    held: bool
    failed: bool
    time: float
    """When the run failed or began, in seconds since 1970."""

    @property
    def name(self) -> str:
        """The flow run's name, made valid for a branch."""
        return self.folder.name


def beside(worktree: Path, suffix: str) -> Path:
    """Return the lock or the marker next to a worktree."""
    return worktree.with_name(worktree.name + suffix)


def leftovers(folder: Path) -> list[Leftover]:
    """Return the worktrees in a folder, oldest first, without those that are removed meanwhile."""
    if not folder.is_dir():
        return []
    found = []
    for name in {_name(path) for path in folder.iterdir() if path.name[0] != "."}:
        with suppress(FileNotFoundError):
            found.append(_leftover(folder / name))
    return sorted(found, key=lambda left: (left.time, left.name))


def _leftover(worktree: Path) -> Leftover:
    lock, mark = beside(worktree, LOCK), beside(worktree, FAILED)
    failed = mark.exists()
    dated = mark if failed else lock if lock.exists() else worktree
    return Leftover(worktree, is_held(lock), failed, dated.lstat().st_mtime)


def _name(path: Path) -> str:
    """Return the name of the worktree that a path is, or that the file is next to."""
    suffix = next((suffix for suffix in (LOCK, FAILED) if path.name.endswith(suffix)), "")
    return path.name if path.is_dir() else path.name.removesuffix(suffix)


def remove(git: Git, worktree: Path) -> None:
    """Remove a worktree, with the files next to it, and no other.

    `git worktree prune` forgets all whose disk or network is away, and `remove` refuses one that was half made.
    """
    files.discard(worktree)
    for place in git.common().glob("worktrees/*/gitdir"):
        with suppress(FileNotFoundError):  # somebody else's that was removed meanwhile
            named = os.fsdecode(place.read_bytes()).strip()
            if (place.parent / named).resolve() == (worktree / ".git").resolve():
                files.discard(place.parent)
    for suffix in (FAILED, LOCK):
        beside(worktree, suffix).unlink(missing_ok=True)


@contextmanager
def one_at_a_time(folder: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock under which worktrees are created and removed."""
    with processes.exclusive(folder / ".lock", waiting=say):
        yield
