"""Calls of a Prefect server that hold nobody up: a server that hangs, or whose disk is full, answers after minutes.

calls = Calls()
calls.begin(send)      # does nothing while the last call is not over
"""

import threading
from collections.abc import Callable
from contextvars import copy_context

MOMENT = 0.25
"""Seconds for which a call is waited for; a server that is well answers within them."""


class Calls:
    """One call at a time, in a thread of its own and in the context of whoever begins it."""

    def __init__(self) -> None:
        self._last: threading.Thread | None = None

    def begin(self, call: Callable[[], object], *, patience: float = MOMENT) -> bool:
        """Begin a call unless the last one is not over, and return whether it has; wait for it for up to `patience`."""
        if not self.over():
            return False
        self._last = threading.Thread(target=copy_context().run, args=(call,), name="asks Prefect", daemon=True)
        self._last.start()
        self._last.join(patience)
        return True

    def over(self, *, patience: float = 0.0) -> bool:
        """Return whether the last call is over within `patience` seconds."""
        if self._last:
            self._last.join(patience)
        return self._last is None or not self._last.is_alive()
