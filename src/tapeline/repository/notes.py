"""Notes in Git's own folder, where no fetch and no checkout writes: lists of lines that only grow.

notes.append(common, "runs", "3f2a…")
notes.lines(common, "runs")

Each user's lists are their own: in a clone that several share, those of all but the first have the user's number in
their names. Nobody reads what another user may have written.
"""

import errno
import os
import stat
import sys
from pathlib import Path

from tapeline.runtime import files, streams

FOLDER = "tapeline"


def path(common: Path, name: str) -> Path:
    """Return where this user's list is. common: Git's common folder, one for all worktrees."""
    plain = common / FOLDER / name
    numbered = plain.with_name(f"{name}.{os.geteuid()}")
    owned = (place for place in (plain, numbered) if _owner(place) == os.geteuid())
    return next(owned, numbered if os.path.lexists(plain) else plain)


def _owner(path: Path) -> int | None:
    try:
        return path.lstat().st_uid
    except FileNotFoundError:
        return None


def append(common: Path, name: str, *lines: str) -> None:
    """Add lines to a list, whole and on the disk. Raises `OSError`, and `InputError` as `files.own` does."""
    where = path(common, name)
    files.make_folder(where.parent)
    descriptor = files.own(where, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        if os.fstat(descriptor).st_uid != os.geteuid():
            raise PermissionError(errno.EACCES, "it belongs to another user", str(where))
        size = os.fstat(descriptor).st_size
        cut = "" if not size or files.read_bytes(where).endswith(b"\n") else "\n"
        text = (cut + "".join(f"{line}\n" for line in lines)).encode()
        try:
            while text:  # of a disk that is nearly full, less is written than was given
                text = text[os.write(descriptor, text) :]
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, size)
            raise
    finally:
        os.close(descriptor)


def lines(common: Path, name: str) -> list[str]:
    """Return a list's lines; none, and a message that says so, if others own it or could have written them."""
    where = path(common, name)
    try:
        about = where.lstat()
    except FileNotFoundError:
        return []
    if about.st_uid != os.geteuid():
        why = "it belongs to another user: delete it"
    elif not stat.S_ISREG(about.st_mode):
        why = "it is not a regular file: delete it"
    elif about.st_mode & 0o022:
        why = "others can write to it: `chmod 600` it, or delete it"
    else:
        return files.read_bytes(where).decode("utf-8", "replace").split("\n")
    streams.say(f"tapeline: ignoring {where}: {why}", sys.stderr)
    return []
