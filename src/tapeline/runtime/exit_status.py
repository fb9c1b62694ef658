"""How a command ends: an expected failure is one line on stderr, and an exit status."""

import signal
import sys
from collections.abc import Callable, Sequence

from tapeline.runtime import processes, streams
from tapeline.runtime.disk_errors import disk_error
from tapeline.runtime.errors import InputError, Interrupted, RunError, TapelineError


def of(program: str, action: Callable[[], int], *, advice: str = "") -> int:
    """Run `action` and return its exit status; for an error, print one line and return the matching status.

    advice: what the line for Ctrl-C ends with. Raises what is no expected failure.
    """
    say = teller(program)
    processes.wait_for_children()
    try:
        return action()
    except (TapelineError, Interrupted) as error:
        say(str(error))
        return error.status
    except OSError as error:
        failure = disk_error(error)
        streams.drop(sys.stdout)
        say(str(failure))
        return failure.status
    except KeyboardInterrupt:
        say(f"stopped by SIGINT{advice}")
        return 128 + signal.SIGINT


def teller(program: str) -> Callable[[str], None]:
    """Return a function that prints a line to stderr, prefixed with the program's name."""
    return lambda message: streams.say(f"{program}: {message}", sys.stderr)


def signal_name(number: int) -> str:
    """Return a signal's name, such as SIGKILL; a real-time signal has none."""
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"


def error(status: int, lines: Sequence[str]) -> InputError | RunError:
    """Return the error with which a `tapeline` command ended: the last line that it printed, by its exit status."""
    last = next((line.strip() for line in reversed(lines) if line.strip()), f"exit status {status}")
    return (InputError if status == InputError.status else RunError)(last.removeprefix("tapeline: "))
