"""Which runs were built here: the ids of their commits, in Git's own folder, where no fetch and no checkout writes.

own_runs.note(git, commit)
commit in own_runs.noted(git)

A branch says nothing about where it was built: anybody may push one. The id of a commit covers all that is in it.
"""

import os
import stat
import sys
from pathlib import Path

from tapeline.repository.git import Git
from tapeline.runtime import files

NAME = Path("tapeline", "runs")
"""In Git's common folder: one for all worktrees."""


def note(git: Git, commit: str) -> None:
    """Remember a commit as built here."""
    path = _path(git)
    files.make_folder(path.parent)
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, f"{commit}\n".encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def noted(git: Git) -> frozenset[str]:
    """Return the commits that were built here; none, and a line that says so, if others could have written the list."""
    path = _path(git)
    try:
        about = path.lstat()
    except FileNotFoundError:
        return frozenset()
    if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o022:
        print(f"tapeline: {path} is not read, for others may write it: `chmod 600` it, or delete it", file=sys.stderr)
        return frozenset()
    return frozenset(files.read_bytes(path).decode("ascii", "replace").split())


def _path(git: Git) -> Path:
    return Path(git("rev-parse", "--path-format=absolute", "--git-common-dir")) / NAME
