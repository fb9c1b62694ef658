"""What a command of ours says in a terminal: readable log lines, one line for whatever ended it, and an exit status."""

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType

from tapeline.runtime.disk_errors import disk_error
from tapeline.runtime.errors import Interrupted, TapelineError

READABLE = {
    "PREFECT_LOGGING_FORMATTERS_STANDARD_FLOW_RUN_FMT": "%(asctime)s  %(message)s",
    "PREFECT_LOGGING_FORMATTERS_STANDARD_TASK_RUN_FMT": "%(asctime)s  %(task_run_name)s  %(message)s",
}
"""Prefect's own prefix takes half a line. Who has set another one keeps it."""


def status(program: str, action: Callable[[], int]) -> int:
    """Do something and return its exit status, or the one that its error deserves, after one line about it."""
    say = teller(program)
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
        say("stopped by SIGINT; run again to go on")
        return 128 + signal.SIGINT


def teller(program: str) -> Callable[[str], None]:
    """Return what tells a line, after the program's name."""
    return lambda message: print(f"{program}: {message}", file=sys.stderr, flush=True)


def _interrupt(signum: int, frame: FrameType | None) -> None:
    raise Interrupted(f"stopped by {signal.Signals(signum).name}; run again to go on", signum=signum)
