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


def is_echo(signum: int) -> bool:
    """Return whether a signal that has just arrived repeats the previous one. Call once for each signal."""
    now = time.monotonic()
    if now - _heard.get(signum, -math.inf) < ECHO:
        return True
    _heard[signum] = now
    return False


@contextmanager
def watching(
    handler: Callable[[int, FrameType | None], None],
    watch: Callable[[socket.socket], None],
    *,
    name: str,
    stay: bool = False,
) -> Iterator[None]:
    """In the block, handle `SIGNALS` with `handler`, and have a thread of that name watch, whatever Python is doing.

    watch: called in the thread with a socket, to which Python's C-level handler writes the number of each signal at
    once; returns when the socket ends, with the block. stay: leave the handlers installed.
    """
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    _heard.clear()
    wakeup = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    before = {number: signal.signal(number, handler) for number in SIGNALS}
    watcher = threading.Thread(target=watch, args=(reader,), name=name, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(wakeup)  # before the handlers: else both the watcher and the earlier one call `is_echo`
        for number, earlier in () if stay else before.items():
            signal.signal(number, earlier)
        writer.close()
        watcher.join()
        reader.close()


@contextmanager
def interruptible(leave: Callable[[Interrupted], None], *, grace: float = GRACE) -> Iterator[None]:
    """Raise `Interrupted` for SIGTERM and SIGINT in the main thread; call `leave` if that has no effect.

    leave: ends the process; called from another thread. The handlers stay installed after the block.
    """
    done = threading.Event()
    with watching(interrupt, lambda reader: _watch(reader, done, leave, grace), name="interruption", stay=True):
        try:
            yield
        finally:
            done.set()


def interrupt(signum: int, frame: FrameType | None, *, advice: str = "") -> None:
    """Handle a signal: raise `Interrupted` unless it is an echo. advice: what the message ends with."""
    if not is_echo(signum):
        raise _of(signum, advice)


def _of(signum: int, advice: str = "") -> Interrupted:
    return Interrupted(f"stopped by {signal.Signals(signum).name}{advice}", signum=signum)


def _watch(reader: socket.socket, done: threading.Event, leave: Callable[[Interrupted], None], grace: float) -> None:
    while received := reader.recv(1):
        if received[0] in SIGNALS:
            if not done.wait(grace):
                leave(_of(received[0]))
            return
