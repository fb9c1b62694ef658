"""Where a folder's DVC repository is, found without DVC, whose import takes a third of a second."""

import os
import shlex
from pathlib import Path

from tapeline.repository.git import Git


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


def dvc_left_out(folder: Path) -> str:
    """Return the remedy where Git has the `.dvc` of a folder, or of one above it, and this checkout lacks it.

    It is empty otherwise. A sparse checkout leaves it out. folder: need not exist.
    """
    git = Git(next(one for one in (folder, *folder.parents) if one.is_dir()))
    if dvc_top(folder) or not (top := git.ask("rev-parse", "--show-toplevel")):
        return ""
    above = folder.resolve().relative_to(Path(top).resolve())
    places = [one / ".dvc" for one in (above, *above.parents)]
    for place in places:
        if git.lines("ls-files", "--", f":(top,literal){place / 'config'}"):
            if git.ask("config", "--type=bool", "core.sparseCheckout") == "true":
                return f"`git -C {shlex.quote(top)} sparse-checkout add {place}`"
            return f"`git checkout -- :/{place}`"
    return ""


def may_write(path: Path) -> bool:
    """Return whether this user may make or replace a file, by the nearest folder above it that exists."""
    return os.access(next(folder for folder in path.parents if folder.exists()), os.W_OK | os.X_OK)
