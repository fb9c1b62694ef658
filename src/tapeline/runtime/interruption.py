"""Ending on a signal where there is no state to save: at once, whatever TensorFlow does meanwhile.

The handlers raise `Interrupted`, which cleans up on its way out. It may come late, since Python's handlers do not run
inside a long call of TensorFlow, or be lost, since what is raised inside a `__del__` is printed and dropped. Then a
watcher thread, which the kernel's signal reaches in any case, ends the process.

A signal that comes again at once is the same one (`is_echo`): a parent's death is told once for each of its threads
(`tapeline.runtime.processes`), and a second signal means that a person has lost patience.
"""

import math
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from tapeline.runtime.errors import Interrupted

SIGNALS = (signal.SIGTERM, signal.SIGINT)
GRACE = 3.0
"""Seconds that the exception has to end the process in order."""

ECHO = 1.0
"""Seconds in which a signal that comes again is the same one."""

_heard: dict[int, float] = {}
"""When each signal was last taken for a new one. Signals are the process's, and so is this."""


def listen() -> None:
    """Take whatever comes next for a new signal."""
    _heard.clear()


def is_echo(signum: int) -> bool:
    """Return whether a signal that has just come is the one before, told again. To be asked once for each."""
    now = time.monotonic()
    if now - _heard.get(signum, -math.inf) < ECHO:
        return True
    _heard[signum] = now
    return False


@contextmanager
def interruptible(leave: Callable[[Interrupted], None], *, grace: float = GRACE) -> Iterator[None]:
    """Raise `Interrupted` for SIGTERM and SIGINT in the main thread; `leave` is called when that had no effect.

    leave: ends the process; called from another thread. The handlers stay when the block is left.
    """
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    done = threading.Event()
    listen()
    for number in SIGNALS:
        signal.signal(number, interrupt)
    before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    watcher = threading.Thread(target=_watch, args=(reader, done, leave, grace), name="interruption", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        signal.set_wakeup_fd(before)
        writer.close()
        watcher.join()
        reader.close()


def interrupt(signum: int, frame: FrameType | None) -> None:
    """Handle a signal by `Interrupted`."""
    if not is_echo(signum):
        raise _of(signum)


def _of(signum: int) -> Interrupted:
    return Interrupted(f"stopped by {signal.Signals(signum).name}", signum=signum)


def _watch(reader: socket.socket, done: threading.Event, leave: Callable[[Interrupted], None], grace: float) -> None:
    while received := reader.recv(1):
        if received[0] in SIGNALS:
            if not done.wait(grace):
                leave(_of(received[0]))
            return
