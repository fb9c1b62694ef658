"""What a command does with its processes when it ends at once."""

import contextlib

import psutil


def kill_children() -> None:
    """Kill what this process has started, directly or not. May be called from any thread."""
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):  # it has already ended
            child.kill()
