"""The password of the servers that Tapeline starts: who cannot read one private file can start nothing there.

    auth(project.shared)        # "tapeline:…", made at the first call

A Prefect server runs code for whoever reaches it, and every local user, and every page in a browser, reaches the
loopback address. The file is `.tapeline/prefect/auth`, in a folder with mode 0700 that also holds the database. The
password is handed on in environments only: command lines and logs are for everyone.
"""

import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tapeline.runtime import files
from tapeline.runtime.errors import InputError

FOLDER = "prefect"
FILE = "auth"

SERVER = "PREFECT_SERVER_API_AUTH_STRING"
CLIENT = "PREFECT_API_AUTH_STRING"

_FORM = re.compile(r"tapeline:[A-Za-z0-9_-]{32,}\n?")
_MOST = 1024


def auth(state: Path) -> str:
    """Return the password of a project's servers; the first call makes it.

    Raises `InputError` for a file that others can read, or may have written.
    """
    path = state / FOLDER / FILE
    with _opened(state) as folder:
        if (known := _read(path, folder)) is None:
            _make(path, folder)
            known = _read(path, folder)
    if known is None:
        raise InputError(f"{path} disappeared right after it was created: find out what removes files there")
    return known


def private_folder(state: Path) -> Path:
    """Return the folder of our servers' files, for this user alone. Raises `InputError` if it is not this user's."""
    with _opened(state):
        return state / FOLDER


@contextmanager
def _opened(state: Path) -> Iterator[int]:
    """Yield a descriptor of the folder: whoever renames folders above it meanwhile gains nothing."""
    path = state / FOLDER
    try:
        files.make_folder(state)
        with suppress(FileExistsError):
            path.mkdir(mode=0o700)
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (PermissionError, NotADirectoryError) as error:  # a link is no directory here
        raise InputError(f"{path}: {error.strerror}: {_RULE}") from None
    try:
        if os.fstat(folder).st_uid != os.geteuid():
            raise InputError(f"{path} belongs to another user: {_RULE}")
        os.fchmod(folder, 0o700)
        yield folder
    finally:
        os.close(folder)


_RULE = (
    "it must be your own folder, not a link, since it holds a server's password and database; set PREFECT_API_URL to "
    "use another server, or use your own clone"
)


def _read(path: Path, folder: int) -> str | None:
    """Return the file's content; None if there is no file. Raises `InputError` for one that is not private."""
    try:
        descriptor = os.open(FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}): {_REMEDY}") from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise InputError(f"{path} is not a regular file: {_REMEDY}")
        if found.st_uid != os.geteuid():
            raise InputError(f"{path} belongs to another user, who knows the password: {_REMEDY}")
        if found.st_mode & 0o077:
            raise InputError(f"{path} has mode {stat.S_IMODE(found.st_mode):04o}, so others can use it: {_REMEDY}")
        text = os.read(descriptor, _MOST).decode("ascii", errors="replace")
    finally:
        os.close(descriptor)
    if not _FORM.fullmatch(text):
        raise InputError(f"{path} is not as Tapeline writes it: {_REMEDY}")
    return text.rstrip("\n")


_REMEDY = "remove it, and stop the server that uses it; the next start makes a new one with mode 0600"


def _make(path: Path, folder: int) -> None:
    """Make the file at once with its content; of two that do, the first counts."""
    temporary = f"{FILE}.{secrets.token_hex(8)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o600, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(f"tapeline:{secrets.token_urlsafe(32)}\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(temporary, FILE, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except PermissionError as error:
        raise InputError(
            f"{path} cannot be made, which takes a file system with hard links: {error.strerror}"
        ) from None
    finally:
        os.unlink(temporary, dir_fd=folder)
