"""Worktrees of runs that failed or crashed."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tapeline.repository.git import Git
from tapeline.repository.retention.item import DAY, Item, Limits, age, size_of, younger
from tapeline.repository.worktrees import leftovers, remove


def worktree_folders(git: Git, folder: Path, *, limits: Limits, now: float) -> Iterator[Item]:
    """Yield the worktrees: one is kept while its run is active, or if the run failed recently."""
    for left in leftovers(folder):
        old = now - left.time
        if left.held:
            kept = "its run is in progress"
        else:
            kept = younger(limits.days) if left.failed and old < limits.days * DAY else ""
        how = "held" if left.held else "failed" if left.failed else "crashed"
        yield Item(
            kind="worktree",
            name=f"{left.name}, {how}, {age(old)} old",
            size=size_of(left.folder),
            kept=kept,
            remove=partial(remove, git, left.folder),
            path=left.folder,
        )
