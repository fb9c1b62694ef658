"""What the operating system says of a disk, in one line that says what to do."""

import errno
import os

from tapeline.errors import InputError, RunError, TapelineError


def disk_error(error: OSError) -> TapelineError:
    """Return the error to tell for a disk that is full or not writable; any other `error` is raised again."""
    where = f" ({error.filename})" if error.filename else ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return RunError(f"no space left on the disk{where}: make room and run again")
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return InputError(f"not writable or readable{where}: {os.strerror(error.errno)}")
    raise error
