"""Terminal output of the flow commands: readable log lines, one line for any error, and an exit status."""

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType

from tapeline.runtime import processes, streams
from tapeline.runtime.disk_errors import disk_error
from tapeline.runtime.errors import Interrupted, TapelineError
from tapeline.runtime.interruption import is_echo

READABLE = {
    "PREFECT_LOGGING_FORMATTERS_STANDARD_FLOW_RUN_FMT": "%(asctime)s  %(message)s",
    "PREFECT_LOGGING_FORMATTERS_STANDARD_TASK_RUN_FMT": "%(asctime)s  %(task_run_name)s  %(message)s",
}
"""Prefect's default prefix takes half a line. A user's own setting is kept."""


def status(program: str, action: Callable[[], int]) -> int:
    """Run `action` and return its exit status; for an error, print one line and return the matching status."""
    say = teller(program)
    processes.wait_for_children()  # also of `python -m flows.…`
    signal.signal(signal.SIGTERM, _interrupt)
    for name, value in READABLE.items():
        os.environ.setdefault(name, value)
    try:
        return action()
    except (TapelineError, Interrupted) as error:
        say(str(error))
        return error.status
    except OSError as error:
        failure = disk_error(error)
        say(str(failure))
        return failure.status
    except KeyboardInterrupt:
        say("stopped by SIGINT; run again to resume")
        return 128 + signal.SIGINT


def teller(program: str) -> Callable[[str], None]:
    """Return a function that prints a line to stderr, prefixed with the program's name."""
    return lambda message: streams.say(f"{program}: {message}", sys.stderr)


def show(result: str) -> None:
    """Print a result. What was done is done, whether anybody reads it or not."""
    streams.say(result, sys.stdout)


def _interrupt(signum: int, frame: FrameType | None) -> None:
    """Raise `Interrupted`, unless the kernel repeats the signal: it tells a parent's death once for each thread."""
    if is_echo(signum):
        return
    raise Interrupted(f"stopped by {signal.Signals(signum).name}; run again to resume", signum=signum)
