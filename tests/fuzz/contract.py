"""What every reader owes to whatever it is given: a result, or the project's own error in one line, soon."""

import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tapeline.runtime.errors import TapelineError

HANG = 20
"""Seconds of the processor for one small input; ten times as many by the clock, since others may use the processor."""


class Broken(AssertionError):
    """A reader that broke the contract; `kind` is the same for inputs that break it in the same way."""

    def __init__(self, kind: str, said: str) -> None:
        super().__init__(f"{kind}: {said}")
        self.kind = kind


class _Hangs(BaseException):
    """No `Exception`, so that no reader takes it for one of its own."""


def kept(read: Callable[[], object]) -> str:
    """Call a reader; return what it refused its input with, nothing if it took it. Raises `Broken`."""
    try:
        with _in_time():
            read()
    except TapelineError as error:
        said = str(error)
        if not said or not said.isprintable():
            raise Broken(f"not one plain line of {type(error).__name__}", ascii(said)) from error
        return said
    except _Hangs as error:
        raise Broken(f"hangs at {_place(error)}", f"more than {HANG} s") from error
    except Exception as error:
        raise Broken(f"{type(error).__name__} at {_place(error)}", ascii(str(error))[:200]) from error
    return ""


@contextmanager
def _in_time() -> Iterator[None]:
    ended = False

    def stop(_number: int, _frame: object) -> None:
        nonlocal ended
        if not ended:  # else the other clock runs out on the way out
            ended = True
            raise _Hangs

    clocks = ((signal.SIGPROF, signal.ITIMER_PROF, HANG), (signal.SIGALRM, signal.ITIMER_REAL, 10 * HANG))
    before = [(number, clock, signal.signal(number, stop)) for number, clock, _ in clocks]
    for _, clock, seconds in clocks:
        signal.setitimer(clock, seconds)
    try:
        yield
    finally:
        for number, clock, handler in before:
            signal.setitimer(clock, 0)
            signal.signal(number, handler)


def _place(error: BaseException) -> str:
    """Return the last line of the project on the way to an error."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "/src/tapeline/" in frame.filename or "/flows/" in frame.filename]
    return f"{Path(own[-1].filename).name}:{own[-1].lineno}" if own else "the test"
