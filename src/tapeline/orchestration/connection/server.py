"""A Prefect server where none is configured: up in 2.5 s, gone when its user is, however that one ended.

    with LocalServer(project.shared, say=print) as server:
        url = server.ready()     # what takes time is better done before: the server is starting already

Prefect's own temporary server takes several times as long, and outlives a flow that was killed. This one gets a
listening socket, so that no port can be lost and nobody has to ask whether it is up: the first request waits.

Its database stays in `.tapeline/prefect/<version>/`, where later runs find it made (making one takes 5 s) and people
find their history: `PREFECT_HOME=.tapeline/prefect/3.8.8 prefect server start`. Several flows at once have a server
each over the one file: SQLite's write-ahead log is made for that, and Prefect waits for a minute at its lock. Only
the making of the database is not safe against another or against being cut off, so a lock is held meanwhile, and a
database without the mark of completion is made anew.
"""

import http.client
import os
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import ExitStack
from importlib import metadata
from pathlib import Path
from types import TracebackType

from tapeline.orchestration.connection import application
from tapeline.orchestration.stages.child import Child
from tapeline.runtime import processes
from tapeline.runtime.disk_errors import check_writable
from tapeline.runtime.errors import RunError

LOOPBACK = "127.0.0.1"

CODE = str(Path(__file__).resolve().parents[3])
"""Where this package is imported from."""

PATIENCE = 120.0
"""Seconds until a server that does not answer is given up."""


class LocalServer:
    """A server process; `state` is the project's folder for what is not an out, `say` hears for whom it waits.

    Without a `port` it takes a free one and serves one flow. With one it has the user interface and the scheduler too,
    and its end does not end this process.
    """

    def __init__(self, state: Path, *, say: Callable[[str], None], port: int = 0) -> None:
        self._port = self._wanted_port = port
        self._home = state / "prefect" / metadata.version("prefect")
        self._made = self._home / "made"
        self._say = say
        self._leaving = threading.Event()

    def __enter__(self) -> "LocalServer":
        with ExitStack() as stack:
            self._home.mkdir(parents=True, exist_ok=True)
            self._making = stack.enter_context(ExitStack())
            if not self._made.exists():
                self._making.enter_context(processes.exclusive(self._home / "making.lock", waiting=self._say))
            if not self._made.exists():
                for file in self._home.glob("prefect.db*"):
                    file.unlink()
            self._output = stack.enter_context(tempfile.TemporaryFile())
            self._child = stack.enter_context(self._start())
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leaving.set()
        self._stack.close()

    def ready(self) -> str:
        """Return the API's address as soon as it answers.

        Raises `RunError` with the server's last line, or `OSError` where its disk is full or read-only.
        """
        connection = http.client.HTTPConnection(LOOPBACK, self._port, timeout=PATIENCE)  # knows no proxy
        try:
            connection.request("GET", "/api/health")
            status = connection.getresponse().status
        except OSError as error:
            raise RunError(self._failure(str(error))) from None
        finally:
            connection.close()
        if status != http.client.OK:
            raise RunError(self._failure(f"status {status}"))
        self._made.touch()
        self._making.close()
        if not self._wanted_port:
            threading.Thread(target=self._watch, daemon=True).start()
        return f"http://{LOOPBACK}:{self._port}/api"

    @property
    def runs(self) -> bool:
        """Whether the process is there."""
        return self._child.returncode is None

    def _watch(self) -> None:
        """End the flow when its server is killed: Prefect would go on asking it for minutes.

        The kernel then ends the stage in order, as when the flow is killed.
        """
        while not self._leaving.wait(0.5):
            if self._child.returncode is not None:
                self._say("the temporary Prefect server was killed; run again to go on")
                os._exit(1)

    def _start(self) -> Child:
        with socket.create_server((LOOPBACK, self._wanted_port), backlog=128) as listener:
            self._port = listener.getsockname()[1]
            factory = f"{application.__name__}:create"
            uvicorn = [sys.executable, "-m", "uvicorn", "--app-dir", CODE, "--factory", factory]
            return Child(
                [*uvicorn, "--fd", str(listener.fileno()), "--log-level", "warning", "--lifespan", "on"],
                cwd=self._home,
                env=self._environment(),
                output=self._output,
                pass_fds=[listener.fileno()],
                at_our_death=signal.SIGKILL,
                grace=5,
            )

    def _environment(self) -> dict[str, str]:
        """Return an environment in which no setting of the user's own servers counts."""
        kept = ("PREFECT_SERVER_", "PREFECT_UI_") if self._wanted_port else ()
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("PREFECT_") or name.startswith(kept)
        }
        own = {"DO_NOT_TRACK": "1", "PREFECT_HOME": str(self._home), "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
        if self._wanted_port:
            # The user interface tells the browser this address.
            own |= {"PREFECT_SERVER_API_HOST": LOOPBACK, "PREFECT_SERVER_API_PORT": str(self._wanted_port)}
        else:
            # What Prefect sets for its own: no user interface, no scheduler and no other service for later.
            own |= {"PREFECT__SERVER_EPHEMERAL": "1", "PREFECT__SERVER_FINAL": "1"}
        return inherited | own

    def _failure(self, reason: str) -> str:
        check_writable(self._home)
        self._output.seek(0)
        lines = [line for line in self._output.read().decode(errors="replace").splitlines() if line.strip()]
        last = lines[-1].strip() if lines else reason
        which = "Prefect" if self._wanted_port else "temporary Prefect"
        return f"the {which} server did not start: {last} (if its database is damaged: rm -r {self._home})"
