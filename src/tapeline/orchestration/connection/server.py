"""A Prefect server for when none is configured: up in 2.5 s, and gone with its user, however that one ended.

    with LocalServer(project.shared, say=print) as server:
        url = server.ready()     # do slow work before this line: the server is already starting

Prefect's own temporary server takes several times as long, and outlives a flow that was killed. This one inherits a
listening socket, so that no other process can take its port and nobody has to poll: the first request waits. The
socket stays open here too: where the server dies, nobody else can answer, and be told its password, in its place.

Its database stays in `.tapeline/prefect/<version>/`, where later runs reuse it (creating one takes 5 s) and people
find their history: `PREFECT_HOME=.tapeline/prefect/3.8.8 prefect server start`. It is for its user alone, and every
request needs the password of `credentials`; `guard` keeps web pages away. Concurrent flows have a server each
on the same file: SQLite's write-ahead log allows that, and Prefect waits up to a minute for its lock. Only creating
the database is not safe against a second process or an interruption, so it happens under a lock, and a database
without the completion marker is created again.
"""

import http.client
import os
import shlex
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from importlib import metadata
from multiprocessing.connection import wait
from pathlib import Path

from tapeline.orchestration.connection import application, credentials
from tapeline.orchestration.connection.discovery import HOSTS, LOOPBACK
from tapeline.orchestration.connection.failures import API
from tapeline.orchestration.stages.child import Child
from tapeline.runtime import files, processes
from tapeline.runtime.disk_errors import check_writable
from tapeline.runtime.errors import InputError, RunError

CODE = str(Path(__file__).resolve().parents[3])
"""Where this package is imported from."""

PATIENCE = 120.0
"""Seconds to wait for a server that does not answer."""

BACKLOG = 128

DOORS = {credentials.SERVER, application.ORIGINS, "PREFECT_SERVER_CORS_ALLOWED_ORIGINS"}
"""The variables that would decide who may use the server."""


class LocalServer:
    """A server process; `state` is the project's folder for non-outputs, `say` is told what it waits for.

    Without a `listener`, the server takes a free port and serves one flow. With one, it runs the user interface and
    the scheduler too, and its end does not end this process. Waiting for it to be ready ends where `given_up` is set.
    """

    def __init__(
        self,
        state: Path,
        *,
        say: Callable[[str], None],
        listener: socket.socket | None = None,
        given_up: threading.Event | None = None,
    ) -> None:
        self._state = state
        self._home = state / credentials.FOLDER / metadata.version("prefect")
        self._made = self._home / "made"
        self._say = say
        self._given = listener
        self._leaving, self._given_up = threading.Event(), given_up or threading.Event()

    def __enter__(self) -> "LocalServer":
        with ExitStack() as stack:
            self.auth = credentials.auth(self._state)
            _make_private(self._home)
            self._making = stack.enter_context(ExitStack())
            if not self._made.exists():
                self._making.enter_context(processes.exclusive(self._home / "making.lock", waiting=self._say))
            if not self._made.exists():
                for file in self._home.glob("prefect.db*"):
                    file.unlink()
            self._output = stack.enter_context(tempfile.TemporaryFile())
            self._listener = self._given or stack.enter_context(socket.create_server((LOOPBACK, 0), backlog=BACKLOG))
            self._port = self._listener.getsockname()[1]
            self._child = stack.enter_context(self._start())
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._leaving.set()
        self._stack.close()

    def ready(self) -> str:
        """Return the API's address as soon as it answers.

        Raises `RunError` with the server's last line, or `OSError` where its disk is full or read-only.
        """
        connection = http.client.HTTPConnection(LOOPBACK, self._port, timeout=PATIENCE)  # ignores proxies
        try:
            status = self._status(connection)
        except OSError as error:
            raise RunError(self._failure(str(error))) from None
        finally:
            connection.close()
        if status != http.client.OK:
            raise RunError(self._failure(f"status {status}"))
        self._made.touch()
        self._making.close()
        if not self._given:
            threading.Thread(target=self._watch, daemon=True).start()
        return f"http://{LOOPBACK}:{self._port}/api"

    def _status(self, connection: http.client.HTTPConnection) -> int:
        """Return how the server answers. A dead one closes no connection: the socket is open here."""
        connection.request("GET", "/api/health")
        end = time.monotonic() + PATIENCE
        while not wait([connection.sock], 0.05):
            if not self.runs or self._given_up.is_set() or time.monotonic() > end:
                raise OSError("no answer")
        return connection.getresponse().status

    @property
    def runs(self) -> bool:
        """Whether the process is running."""
        return self._child.returncode is None

    def _watch(self) -> None:
        """End the flow when its server is killed: Prefect would keep retrying for minutes.

        The kernel then signals the stage to stop cleanly, as when the flow is killed.
        """
        while not self._leaving.wait(0.5):
            if self._child.returncode is not None:
                self._say("the temporary Prefect server was killed; run again to resume")
                os._exit(1)

    def _start(self) -> Child:
        factory = f"{application.__name__}:create"
        uvicorn = [sys.executable, "-m", "uvicorn", "--app-dir", CODE, "--factory", factory]
        return Child(
            [*uvicorn, "--fd", str(self._listener.fileno()), "--log-level", "warning", "--lifespan", "on"],
            cwd=self._home,
            env=self._environment(),
            output=self._output,
            pass_fds=[self._listener.fileno()],
            at_our_death=signal.SIGKILL,
            grace=5,
        )

    def _environment(self) -> dict[str, str]:
        """Return an environment without the settings of the user's own servers. Raises `InputError`."""
        if self._given and (open_doors := sorted(DOORS & os.environ.keys())):
            raise InputError(
                f"{', '.join(open_doors)}: the server started here sets its own password and origins; unset it, or "
                f"start your own server and set {API}"
            )
        if "?" in str(self._home):
            raise InputError(f"{self._home} contains a ?, which ends a database's address: rename the folder")
        kept = ("PREFECT_SERVER_", "PREFECT_UI_") if self._given else ()
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("PREFECT_") or name.startswith(kept)
        }
        own = {"DO_NOT_TRACK": "1", "PREFECT_HOME": str(self._home), "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
        own |= {credentials.SERVER: self.auth, application.ORIGINS: ",".join(origins(self._port))}
        if self._given:
            # The user interface gives the browser this address.
            own |= {"PREFECT_SERVER_API_HOST": LOOPBACK, "PREFECT_SERVER_API_PORT": str(self._port)}
        else:
            # As Prefect sets for its own temporary server: no user interface, scheduler or other background service.
            own |= {"PREFECT__SERVER_EPHEMERAL": "1", "PREFECT__SERVER_FINAL": "1"}
        return inherited | own

    def _failure(self, reason: str) -> str:
        check_writable(self._home)
        self._output.seek(0)
        lines = [line for line in self._output.read().decode(errors="replace").splitlines() if line.strip()]
        last = lines[-1].strip() if lines else reason
        which = "Prefect" if self._given else "temporary Prefect"
        remedy = f"rm -r {shlex.quote(str(self._home))}"
        return f"the {which} server did not start: {last} (if its database is damaged: {remedy})"


def origins(port: int) -> list[str]:
    """Return how a browser names the server itself: `http://127.0.0.1:4200`; without 80, which is HTTP's own port."""
    return [f"http://{host}" if port == http.client.HTTP_PORT else f"http://{host}:{port}" for host in HOSTS]


def _make_private(home: Path) -> None:
    """Make the database's folder, and take from others what an older version let them read."""
    files.make_folder(home)
    home.chmod(0o700)
    for file in home.glob("prefect.db*"):
        with suppress(FileNotFoundError):  # another server's write-ahead log
            file.chmod(0o600)
