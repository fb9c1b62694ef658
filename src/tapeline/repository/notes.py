"""Notes in Git's own folder, where no fetch and no checkout writes: lists of lines that only grow.

notes.append(common, "runs", "3f2a…")
notes.lines(common, "runs")
"""

import os
import stat
import sys
from pathlib import Path

from tapeline.runtime import files

FOLDER = "tapeline"


def path(common: Path, name: str) -> Path:
    """Return where a list is. common: Git's common folder, one for all worktrees."""
    return common / FOLDER / name


def append(common: Path, name: str, *lines: str) -> None:
    """Add lines to a list, whole and on the disk. Raises `InputError` as `files.own` does."""
    where = path(common, name)
    files.make_folder(where.parent)
    descriptor = files.own(where, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, "".join(f"{line}\n" for line in lines).encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def lines(common: Path, name: str) -> list[str]:
    """Return a list's lines; none, and a message that says so, if others could have written them."""
    where = path(common, name)
    try:
        about = where.lstat()
    except FileNotFoundError:
        return []
    if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o022:
        print(f"tapeline: {where} is not read, for others may write it: `chmod 600` it, or delete it", file=sys.stderr)
        return []
    return files.read_bytes(where).decode("utf-8", "replace").split("\n")
