"""Fork a process that has imported libraries, and let the child pass for a program that was started.

Standard library only: flows import this, and import no TensorFlow.
"""

import ctypes
import gc
import os
import random
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

PADDING = " " * 1024
"""An argument of the process that is forked: room for the name of what becomes of the child."""


def fork() -> int:
    """Fork. Python warns of threads; those that an import has started, of linear algebra, survive it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def become(command: Sequence[str]) -> None:
    """Forget Tapeline's modules, draw other random numbers, and call this process by another name, which `ps` shows."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "tapeline"]:
        del sys.modules[name]
    random.seed()
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed()
    _rename(" ".join(command))
    gc.enable()


def _rename(name: str) -> None:
    """Write a name over the command line that the kernel has for this process; PADDING makes room for it.

    The kernel ends it at the first zero if the last byte is none (`proc_pid_cmdline_read`).
    """
    with suppress(OSError, ValueError, IndexError):
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        first, end = int(fields[45]), int(fields[46])
        content = name.encode()[: end - first - 2]
        ctypes.memmove(first, content.ljust(end - first - 1, b"\0") + b".", end - first)
