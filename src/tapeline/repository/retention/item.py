"""One item that occupies storage: what it is, how large it is, and why it is kept."""

from collections.abc import Callable, Iterator
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
    yield from (path for path in folder.glob("*") if path.is_dir() and not path.is_symlink())


def discard_unused(folder: Path, *, lock: Path, last: Callable[[Path], float], listed: float) -> bool:
    """Remove a folder, unless somebody holds its lock or has used it since it was listed; return whether it is gone.

    last: returns when it was last used; `listed` is what that was. It is renamed first: the lock may be in it, and
    whoever then makes a new one must not find half of the folder. Raises `OSError` if it cannot be removed.
    """
    try:
        unused = last(folder) == listed  # before a lock is made in it, which counts as a use
        is_new = not lock.exists()
        with unless_held(lock, make=True) as free:
            unused = unused and free and (is_new or last(folder) == listed)
            if unused:
                files.discard(_aside(folder), ignore_errors=False)
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
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_symlink() or path.is_file())


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
