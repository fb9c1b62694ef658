"""Stop on SIGTERM and SIGINT, even while XLA compiles and Python's signal handlers do not run.

A watcher thread, which is notified of a signal at once, asks the loop to end, and past a deadline saves the last
snapshot itself and ends the process.
"""

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType

from tapeline.runtime import streams
from tapeline.runtime.errors import Interrupted
from tapeline.runtime.interruption import SIGNALS, is_echo, watching

DEADLINE = 0.5
"""Seconds that the loop has to end by itself, after the current step; then the watcher saves the last snapshot and
ends the process."""

Leave = Callable[[Interrupted], None]
"""Ends the process with the status of the given `Interrupted`; not called from the main thread."""


def leave_at_once(interrupted: Interrupted) -> None:
    """Print the reason in one line, and end the process."""
    try:
        streams.say(f"tapeline: {interrupted}", sys.stderr)
    finally:
        os._exit(interrupted.status)


class Stopper:
    """Context manager: inside it, a signal sets `signum`, and `ask` is called from the watcher thread.

    ask: makes the running loop end soon. save: writes the last snapshot, and returns the `Interrupted` for a signal
    number. leave: ends the process. A second signal that is not an echo of the first ends the process at once, even
    while a snapshot is being saved.
    The previous signal handlers are restored at the end.
    """

    def __init__(
        self,
        *,
        ask: Callable[[], None],
        save: Callable[[int], Interrupted],
        leave: Leave,
        deadline: float = DEADLINE,
    ) -> None:
        self._ask, self._save, self._leave, self._deadline = ask, save, leave, deadline
        self.signum: int | None = None
        self._done = threading.Event()
        self._watching = watching(_nothing, self._watch, name="signals")

    def __enter__(self) -> "Stopper":
        self._watching.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._watching.__exit__(None, None, None)

    def _watch(self, reader: socket.socket) -> None:
        number = _next(reader)
        if not number:
            return
        self.signum = number
        self._ask()
        again = _next(reader, time.monotonic() + self._deadline)
        if self._done.is_set():
            return
        saving = threading.Thread(target=self._save_and_leave, args=(number,), name="saving", daemon=True)
        if not again:
            saving.start()
            again = _next(reader)
        if again:
            names = f"{signal.Signals(number).name} and then {signal.Signals(again).name}"
            self._leave(Interrupted(f"stopped at once by {names}; the earlier checkpoints are intact", signum=number))
        saving.join()

    def _save_and_leave(self, number: int) -> None:
        try:
            interrupted = self._save(number)
        except Exception as error:
            why = f"stopped, and its state could not be saved: {error}; the earlier checkpoints are intact"
            interrupted = Interrupted(why, signum=number)
        self._leave(interrupted)


def _next(reader: socket.socket, until: float | None = None) -> int:
    """Return the next of `SIGNALS`; 0 if the socket ended or the monotonic clock reached `until`."""
    while True:
        reader.settimeout(None if until is None else max(until - time.monotonic(), 0.001))
        try:
            received = reader.recv(1)
        except TimeoutError:
            return 0
        if not received:
            return 0
        [number] = received
        if number in SIGNALS and not is_echo(number):
            return number


def _nothing(signum: int, frame: FrameType | None) -> None:
    """Do nothing: only that a handler is installed keeps the signal from killing; the watcher does the work."""
