"""The storage of branches, worktrees, checkpoints, copies and the cache, what keeps each, and removal of the rest.

for line in prune(project, pipelines={"digits"}, limits=Limits(), apply=False, now=time.time(), waiting=print):
    print(line)
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from tapeline.config.project import WORKTREES, Project
from tapeline.repository.git import Git
from tapeline.repository.retention.branches import run_branches
from tapeline.repository.retention.cache import Cache, worktrees_of
from tapeline.repository.retention.checkpoints import checkpoint_folders
from tapeline.repository.retention.copies import model_copies
from tapeline.repository.retention.item import Item, Limits
from tapeline.repository.retention.worktrees import worktree_folders
from tapeline.repository.worktrees import LOCK, beside, leftovers, one_at_a_time
from tapeline.runtime.files import STATE
from tapeline.runtime.locks import is_held
from tapeline.runtime.text_table import aligned

BUSY = "isolated runs are in progress: try again after they end"
UNITS = ("B", "kB", "MB", "GB", "TB")


def prune(
    project: Project,
    *,
    pipelines: Collection[str],
    limits: Limits,
    apply: bool,
    now: float,
    waiting: Callable[[str], None],
) -> Iterator[str]:
    """Yield a table of all items; with `apply`, then remove what nothing keeps.

    Remotes are not touched. `pipelines` are the project's; `now` is in seconds since 1970; `waiting` is told which
    process this waits for. Raises `InputError` if the cache is shared with other repositories, `RunError` while DVC is
    writing to it.
    """
    git = Git(project.folder)
    cache = Cache.of(git)
    with ExitStack() as stack:
        if apply:
            stack.enter_context(one_at_a_time(project.worktrees, waiting))
            stack.enter_context(cache.held())
        items = _items(project, git, cache, pipelines, limits, now)
        yield from _table(items)
        going = [item for item in items if not item.kept]
        room = sum(item.size for item in going)
        if not going:
            yield "nothing to remove"
        elif apply:
            used = [item for item in going if item.remove() is False]
            yield from (f"{item.kind} {item.name}: kept, since it was used meanwhile" for item in used)
            yield f"freed {readable(room - sum(item.size for item in used))}"
        else:
            yield f"would free {readable(room)}: nothing was removed; --apply removes it"


def _items(
    project: Project, git: Git, cache: Cache, pipelines: Collection[str], limits: Limits, now: float
) -> list[Item]:
    """Return all items in the order of removal: what uses the cache before the cache."""
    branches = list(run_branches(git, limits))
    worktrees = list(worktree_folders(git, project.worktrees, limits=limits, now=now))
    checkpoints = checkpoint_folders(project.shared / "checkpoints", pipelines=pipelines, limits=limits, now=now)
    places = (project.shared / "registry" / "models", project.local / "init_from")
    copies = (copy for place in places for copy in model_copies(place, limits=limits, now=now))
    gone = {item.name for item in branches if not item.kept}, {item.path for item in worktrees if not item.kept}
    stored = cache.items(without=gone[0], worktrees=gone[1], limits=limits, now=now)
    if any(left.held for left in leftovers(project.worktrees)) or any(map(_is_run, worktrees_of(git)[1])):
        stored = [replace(item, kept=item.kept or BUSY) for item in stored]
    return [*branches, *worktrees, *checkpoints, *copies, *stored]


def _is_run(worktree: Path) -> bool:
    """Return whether a worktree is that of an isolated run in progress, of any project of the repository."""
    above = worktree.parent
    return above.name == WORKTREES and STATE in above.parts and is_held(beside(worktree, LOCK))


def _table(items: list[Item]) -> list[str]:
    rows = [("what", "which", "holds", "kept by")]
    rows += [(item.kind, item.name, readable(item.size) if item.size else "", item.kept or "-") for item in items]
    return aligned(rows)


def readable(size: float) -> str:
    """Return a readable size: `1.5 MB`."""
    power = 0
    while size >= 999.5 and power < len(UNITS) - 1:
        size, power = size / 1000, power + 1
    return f"{size:.3g} {UNITS[power]}"
