"""How a command ends at once, with what it has started."""

import contextlib
import os
from collections.abc import Callable
from typing import NoReturn

import psutil

from tapeline.runtime.errors import Interrupted


def leave(interrupted: Interrupted, *, last: Callable[[], object]) -> NoReturn:
    """Kill what this process has started, directly or not, call `last`, and end it. May be called from any thread."""
    try:
        for child in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):  # it has already ended
                child.kill()
        last()
    finally:
        os._exit(interrupted.status)
