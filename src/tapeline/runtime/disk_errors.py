"""Turn the operating system's disk errors into one line with a remedy."""

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tapeline.runtime.errors import InputError, RunError, TapelineError
from tapeline.runtime.files import NO_NAME


def disk_error(error: OSError) -> TapelineError:
    """Return the error to report for a full, failing, unwritable or too simple disk; re-raise any other `error`."""
    where = f" ({error.filename})" if error.filename else ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return RunError(f"no space left on the disk{where}: free some and run again")
    if error.errno == errno.EFBIG:
        return RunError(f"a file larger than this disk or `ulimit -f` allows{where}: raise the limit and run again")
    if error.errno == errno.EIO:
        return RunError(f"the disk is failing{where}: {os.strerror(errno.EIO)}; run again on another one")
    if error.errno in NO_NAME:
        return InputError(f"not a valid file name{where}: {os.strerror(error.errno)}")
    if error.errno == errno.EISDIR:
        return InputError(f"a folder, where a file should be{where}: move it away")
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return InputError(f"not writable or readable{where}: {os.strerror(error.errno)}")
    if error.errno in (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK):
        reason = os.strerror(error.errno)
        return RunError(f"the disk lacks what Tapeline needs, perhaps locks{where}: {reason}; use another one")
    raise error


def check_writable(folder: Path) -> None:
    """Write a megabyte to `folder` and delete it. Raises `OSError` for a disk that is full or not writable.

    For libraries whose errors do not mention such a disk, for instance a database.
    """
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(1_000_000))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        error.filename = error.filename or str(folder)
        raise


@contextmanager
def blamed(folder: Path) -> Iterator[None]:
    """Replace an unexpected exception with `OSError` if the disk of `folder` is full or not writable."""
    try:
        yield
    except (TapelineError, OSError):
        raise
    except Exception:
        check_writable(folder)
        raise
