"""Where a folder's DVC repository is, found without DVC, whose import takes a third of a second."""

import os
from pathlib import Path


def dvc_top(folder: Path) -> Path | None:
    """Return the folder itself or the nearest above it that has `.dvc`; None if there is none.

    One around the folder's Git repository is not its own, though DVC takes it: no clone of that one has it.
    """
    for one in (folder, *folder.parents):
        if (one / ".dvc").is_dir():
            return one
        if os.path.lexists(one / ".git"):
            return None
    return None


def dvc_around(folder: Path) -> Path | None:
    """Return the nearest folder with `.dvc` whatever is between: what DVC takes; None if there is none."""
    return next((one for one in (folder, *folder.parents) if (one / ".dvc").is_dir()), None)


def may_write(path: Path) -> bool:
    """Return whether this user may make or replace a file, by the nearest folder above it that exists."""
    return os.access(next(folder for folder in path.parents if folder.exists()), os.W_OK | os.X_OK)
