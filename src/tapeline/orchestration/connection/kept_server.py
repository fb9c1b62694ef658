"""A server that is started again when it dies, by a thread that asks it nothing.

    with KeptServer(project.shared, listener=listener, say=print, pause=3.0) as server:
        server.check()        # raises what kept it from starting again

Whoever asks a server that is dead waits for the next one, since the socket stays open. So does the process that keeps
it: what starts it again may never be in the middle of such a request.
"""

import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from tapeline.orchestration.connection.server import LocalServer

PATIENCE = 60.0
"""Seconds to wait for the end of a server that is being started or ended."""
POLL = 0.5
"""Seconds between two looks whether the server runs."""


class KeptServer:
    """A `LocalServer` on `listener`, for as long as the block lasts; `pause` seconds after its death the next one.

    Entering starts the first. Raises as `LocalServer` does. Where another cannot be started, the socket is closed, so
    that nobody waits for an answer, and `check` raises the reason.
    """

    def __init__(self, state: Path, *, listener: socket.socket, say: Callable[[str], None], pause: float) -> None:
        self._state, self._listener, self._say, self._pause = state, listener, say, pause
        self._stack = ExitStack()
        self._leaving = threading.Event()
        self._error: Exception | None = None
        # The kernel ends a server with the thread that started it, so this one stays until the end.
        self._keeper = threading.Thread(target=self._keep, name="server keeper", daemon=True)

    def __enter__(self) -> "KeptServer":
        self._server = self._start()
        self._keeper.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._leaving.set()
        self._keeper.join(PATIENCE)  # where it still waits, the server ends with this process

    @property
    def auth(self) -> str:
        """`user:password` of the server that runs."""
        return self._server.auth

    def check(self) -> None:
        """Raise why the server could not be started again, if so."""
        if self._error:
            raise self._error

    def _start(self) -> LocalServer:
        with ExitStack() as stack:
            server = LocalServer(self._state, say=self._say, listener=self._listener, given_up=self._leaving)
            stack.enter_context(server).ready()
            self._stack = stack.pop_all()
        return server

    def _keep(self) -> None:
        try:
            while not self._leaving.wait(POLL):
                if self._server.runs:
                    continue
                self._say("the server was killed; restarting it")
                self._stack.close()
                if not self._leaving.wait(self._pause):
                    self._server = self._start()
        except Exception as error:
            if not self._leaving.is_set():
                self._error = error
                self._listener.close()
        finally:
            self._stack.close()
