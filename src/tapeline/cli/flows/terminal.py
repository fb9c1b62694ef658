"""Terminal output of the flow commands: readable log lines, and how the command ends."""

import os
import signal
import sys
from collections.abc import Callable
from functools import partial

from tapeline.runtime import exit_status, streams
from tapeline.runtime.interruption import interrupt

AGAIN = "; run again to resume"

READABLE = {
    "PREFECT_LOGGING_FORMATTERS_STANDARD_FLOW_RUN_FMT": "%(asctime)s  %(message)s",
    "PREFECT_LOGGING_FORMATTERS_STANDARD_TASK_RUN_FMT": "%(asctime)s  %(task_run_name)s  %(message)s",
}
"""Prefect's default prefix takes half a line. A user's own setting is kept."""


def status(program: str, action: Callable[[], int]) -> int:
    """Run `action` as `exit_status.of` does, and let SIGTERM end it in order."""
    signal.signal(signal.SIGTERM, partial(interrupt, advice=AGAIN))
    for name, value in READABLE.items():
        os.environ.setdefault(name, value)
    return exit_status.of(program, action, advice=AGAIN)


def show(result: str) -> None:
    """Print a result. A reader that is gone does not change the exit status."""
    streams.say(result, sys.stdout)
