"""One item that occupies storage: what it is, how large it is, and why it is kept."""

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tapeline.runtime import files
from tapeline.runtime.locks import unless_held

DAY = 86400.0


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What is kept without another reason: the newest `runs` branches, and whatever is younger than `days`."""

    runs: int = 20
    days: float = 30.0


@dataclass(frozen=True, kw_only=True)
class Item:
    """One item; `kept` says why it stays and is empty if it may go.

    `remove` removes it, unless it was used since it was listed: then it returns False.
    """

    kind: str
    name: str
    size: int
    """Bytes."""
    kept: str
    remove: Callable[[], object]
    path: Path | None = None
    """Its folder, if it is a worktree."""


def folders_in(folder: Path) -> Iterator[Path]:
    """Yield the folders in a folder, which may be missing; a link is none, for what it leads to is not ours."""
    _, names, _ = next(os.walk(folder), ("", (), ()))
    yield from (folder / name for name in names if not (folder / name).is_symlink())


def used_in(folder: Path, last: Callable[[Path], float]) -> dict[Path, float]:
    """Return the folders in a folder with when each was `last` used, but for those that go meanwhile."""
    found = {}
    for path in folders_in(folder):
        with suppress(FileNotFoundError):
            found[path] = last(path)
    return found


def statuses(paths: Iterable[Path]) -> Iterator[os.stat_result]:
    """Yield the status of each file, but for those that have gone since they were listed; links are not followed."""
    for path in paths:
        with suppress(FileNotFoundError):
            yield path.lstat()


def discard_unused(folder: Path, *, lock: Path, last: Callable[[Path], float], listed: float) -> bool:
    """Remove a folder, unless somebody holds its lock or has used it since it was listed; return whether it is gone.

    last: returns when it was last used; `listed` is what that was. It is renamed first: the lock may be in it, and
    whoever then makes a new one must not find half of the folder. A lock beside it goes as well. Raises `OSError` if it
    cannot be removed.
    """
    try:
        unused = last(folder) == listed  # before a lock is made in it, which counts as a use
        is_new = not lock.exists()
        with unless_held(lock, make=True) as free:
            unused = unused and free and (is_new or last(folder) == listed)
            if unused:
                files.discard(_aside(folder), ignore_errors=False)
            if free and lock.parent != folder:
                lock.unlink()
    except FileNotFoundError:
        if folder.exists():
            raise
        return True
    return unused


def _aside(folder: Path) -> Path:
    """Rename a folder to a partial one, unless it is one, and return that."""
    if folder.name.endswith(files.PARTIAL):
        return folder
    aside = folder.with_name(f".{folder.name}.old{files.PARTIAL}")
    files.discard(aside, ignore_errors=False)
    return folder.rename(aside)


def size_of(folder: Path) -> int:
    """Return the total size of a folder's files in bytes; links are not followed."""
    walked = ((above, [*folders, *names]) for above, folders, names in os.walk(folder))
    found = statuses(Path(above, name) for above, names in walked for name in names)
    return sum(status.st_size for status in found if not stat.S_ISDIR(status.st_mode))


def age(seconds: float) -> str:
    """Return a readable age: `5 days`."""
    for name, length in (("day", DAY), ("hour", 3600.0), ("minute", 60.0)):
        if seconds >= length:
            count = int(seconds // length)
            return f"{count} {name}{'s' if count > 1 else ''}"
    return "moments"


def younger(days: float) -> str:
    """Return the reason for keeping a young item."""
    return f"younger than {days:g} day{'' if days == 1 else 's'}"
