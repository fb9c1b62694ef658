"""End on a signal when there is no state to save: at once, whatever TensorFlow is doing.

The handlers raise `Interrupted`, which cleans up on its way out. It may come late, since Python's handlers do not run
inside a long TensorFlow call, or be lost, since an exception inside a `__del__` is printed and dropped. Then a watcher
thread, which is always notified of the signal, ends the process.

A signal repeated at once counts as one (`is_echo`): the kernel signals a parent's death once for each of its threads
(`tapeline.runtime.processes`), and a second signal means that a user has lost patience.
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
"""Seconds that the exception has to end the process cleanly."""

ECHO = 1.0
"""Seconds within which a repeated signal counts as the same one."""

_heard: dict[int, float] = {}
"""When each signal last counted as new. Signals belong to the whole process, hence a global."""


def listen() -> None:
    """Treat the next signal as a new one."""
    _heard.clear()


def is_echo(signum: int) -> bool:
    """Return whether a signal that has just arrived repeats the previous one. Call once for each signal."""
    now = time.monotonic()
    if now - _heard.get(signum, -math.inf) < ECHO:
        return True
    _heard[signum] = now
    return False


@contextmanager
def interruptible(leave: Callable[[Interrupted], None], *, grace: float = GRACE) -> Iterator[None]:
    """Raise `Interrupted` for SIGTERM and SIGINT in the main thread; call `leave` if that has no effect.

    leave: ends the process; called from another thread. The handlers stay installed after the block.
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
    """Handle a signal: raise `Interrupted` unless it is an echo."""
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
