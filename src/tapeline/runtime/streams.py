"""Say something where nobody may listen any more: to a pipe whose reader is gone, or a terminal that was closed."""

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from typing import TextIO

Say = Callable[[str], None]
"""Tells the user a line."""


def say(text: str, to: TextIO) -> None:
    """Print a line at once. If nobody listens, it is dropped, and so is what follows: no work ends for that.

    Raises `OSError` for any other failure, such as a full disk.
    """
    try:
        to.write(f"{text}\n")  # not by `print`, which writes the newline apart: lines of two threads would join
        to.flush()
    except OSError as error:
        if not _is_gone(to, error):
            raise
        drop(to)


def _is_gone(stream: TextIO, error: OSError) -> bool:
    """Return whether an error says that nobody listens: a closed terminal has the same number as a broken disk."""
    if error.errno == errno.EIO:
        return stat.S_ISCHR(os.fstat(stream.fileno()).st_mode)
    return error.errno == errno.EPIPE


def drop(stream: TextIO) -> None:
    """Let a stream lead to /dev/null, so that what it still holds does not fail again at the end."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
