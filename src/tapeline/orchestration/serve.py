"""Everything on one machine: a Prefect server on the loopback address if none is running, and what is due.

    tapeline serve                      # runs the deployments of prefect.yaml here
    tapeline serve --worker               # the same through a work pool, as workers elsewhere do it

Whatever of it dies is started again. Runs whose process is gone are marked, so that they block nothing. Data that have
changed on the main branch are told, for triggers. Ctrl-C ends everything in order; the schedules stay, and what is late
then is made up by one run.
"""

import argparse
import http.client
import os
import shlex
import signal
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import chain

import httpx

from tapeline.config.project import Project
from tapeline.orchestration.connection import command, credentials, discovery
from tapeline.orchestration.connection.discovery import LOOPBACK
from tapeline.orchestration.connection.failures import API, fault, is_refused, told
from tapeline.orchestration.connection.kept_server import KeptServer
from tapeline.orchestration.connection.server import BACKLOG
from tapeline.orchestration.schedules.deployments import CHECKOUT, FILE, read
from tapeline.orchestration.stages.child import Child
from tapeline.runtime.arguments import Parser
from tapeline.runtime.disk_errors import disk_error
from tapeline.runtime.errors import InputError, Interrupted, RunError
from tapeline.runtime.exit_status import teller
from tapeline.runtime.interpreter import with_this_code
from tapeline.runtime.interruption import interrupt

PORT = 4200
PORTS = range(1, 2**16)
EVERY = 10.0
"""Seconds between two looks for dead runs and changed data."""

POLL = 0.5
PAUSE = 3.0
"""Seconds until what died is started again."""

TRIES = 3
"""Consecutive ends of a runner, each within `SETTLED` seconds of its start, before `serve` gives up."""

SETTLED = 30.0

say = teller("serve")


class Supervisor:
    """The server, if it is ours, and the process that runs what is due."""

    def __init__(self, project: Project, *, port: int, worker: bool, stack: ExitStack) -> None:
        self._project, self._port, self._worker, self._stack = project, port, worker, stack
        self._server: KeptServer | None = None
        self._auth = ""
        self._runner: Child | None = None
        self._began, self._failures, self._due, self._told = 0.0, 0, 0.0, ""

    @property
    def owns_server(self) -> bool:
        """Whether the server is one that this process has started."""
        return self._server is not None

    def start_server(self) -> None:
        """Use the server that the user names, or that of another `tapeline serve` here, else start one.

        Whatever else is on the port may be another user's, and whoever has the server decides what runs here. Raises
        `RunError` and `InputError`.
        """
        from prefect.settings import get_current_settings

        own = f"http://{LOOPBACK}:{self._port}/api"
        named = os.environ.get(API) or get_current_settings().api.url
        other = named or discovery.served(self._project)
        if other and (not discovery.same(other, own) or answers(self._port)):
            _connect(other, discovery.auth_for(self._project, other))
            say(f"using the server at {other}")
            _check_password()
            return
        listener = self._stack.enter_context(listening(self._port))
        kept = KeptServer(self._project.shared, listener=listener, say=say, pause=PAUSE)
        self._server = self._stack.enter_context(kept)
        self._connect_own(self._server)
        say(f"server: http://{LOOPBACK}:{self._port}")
        file = os.path.relpath(self._project.shared / credentials.FOLDER / credentials.FILE)
        say(f"its web page asks once for the password: cat {shlex.quote(file)}")

    def _connect_own(self, server: KeptServer) -> None:
        self._auth = server.auth
        _connect(f"http://{LOOPBACK}:{self._port}/api", self._auth)

    def start_runner(self) -> None:
        """Start what runs the flows, or say once that the server does not answer: `look` tries again."""
        checkout = self._project.folder
        try:
            away = unanswered()
            command = [] if away else self._command()
        except httpx.HTTPError as error:
            away = fault(error)
        if away:
            self._due = time.monotonic() + PAUSE
            if away != self._told:
                say(f"waiting for the server at {os.environ[API]}, which {away}")
            self._told = away
            return
        self._told = ""
        self._began = time.monotonic()
        self._runner = Child(
            [sys.executable, "-m", *command],
            cwd=checkout,
            env={
                **os.environ,
                CHECKOUT: str(checkout),
                **with_this_code(),
            },
            output=sys.stderr.fileno(),
        )

    def _command(self) -> list[str]:
        if not self._worker:
            return ["tapeline.orchestration.schedules.runner"]
        from tapeline.orchestration.deploy import deploy

        deploy(self._project.folder)
        pools = {str(deployment.work_pool["name"]) for deployment in read(self._project.folder / FILE)}
        if not pools:
            raise InputError(f"{FILE} has no deployments, so a worker has nothing to run: add one")
        if len(pools) > 1:
            raise InputError(
                f"{FILE} has the work pools {', '.join(sorted(pools))}: a worker serves one pool; start another worker "
                "for each of the others"
            )
        return ["prefect", "worker", "start", "--type", "process", "--pool", *pools]

    def look(self) -> None:
        """Start a runner that has died again. Raises `RunError` for one that does not stay, and a server's errors."""
        if self._server:
            self._server.check()
            if self._server.auth != self._auth:  # somebody has removed the password that was lost or seen
                self._connect_own(self._server)
        if self._runner and self._runner.returncode is not None:
            if self._runner.returncode == InputError.status:
                raise InputError(f"cannot serve {FILE}: the reason is above")
            if not unanswered():  # one without a server cannot stay
                self._failures = self._failures + 1 if time.monotonic() - self._began < SETTLED else 1
            if self._failures > TRIES:
                raise RunError(f"the runner ended {self._failures} times right after its start: its output is above")
            say(f"the runner ended with status {self._runner.returncode}; restarting it")
            self.end()
            self._due = time.monotonic() + PAUSE
        if self._runner is None and time.monotonic() >= self._due:
            self.start_runner()

    def end(self) -> None:
        """End the runner and its runs in order, also where it died: nobody could cancel them. The next run goes on."""
        if self._runner:
            with self._runner:
                self._runner.end(signal.SIGTERM)
        self._runner = None


def main(argv: Sequence[str] | None = None, *, program: str = "tapeline serve") -> int:
    """Serve until a signal comes, and return the exit status."""
    parser = Parser(prog=program, description="run the deployments in prefect.yaml on this machine, until Ctrl-C")
    parser.add_argument("--worker", action="store_true", help="run them through the work pool in prefect.yaml")
    parser.add_argument(
        "--port", type=int, default=PORT, help="the port for a server that it starts (default: %(default)d)"
    )
    options = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, interrupt)
    return command.status("serve", lambda: _serve(options))


def _serve(options: argparse.Namespace) -> None:
    try:
        if options.port not in PORTS:
            raise InputError(f"--port is {options.port}: it must be from {PORTS[0]} to {PORTS[-1]}")
        project = Project.find()
        read(project.folder / FILE)
        with ExitStack() as stack:
            supervisor = Supervisor(project, port=options.port, worker=options.worker, stack=stack)
            try:
                supervisor.start_server()
                announced = discovery.serving(project, os.environ[API], ours=supervisor.owns_server)
                if not stack.enter_context(announced):
                    say("another `tapeline serve` of this project is running: each takes what is due, one is enough")
                supervisor.start_runner()
                _watch(supervisor, project)
            finally:  # before the stack ends the server: what runs tells it how it ended
                supervisor.end()
    except (KeyboardInterrupt, Interrupted):
        say("stopped; the schedules remain")


def _watch(supervisor: Supervisor, project: Project) -> None:
    from prefect.client.orchestration import get_client

    from tapeline.orchestration.data_changes import tell_changes
    from tapeline.orchestration.schedules.dead_runs import DeadRuns

    dead_runs = DeadRuns(project)
    looked, told = 0.0, ""
    while True:
        time.sleep(POLL)
        supervisor.look()
        if time.monotonic() - looked < EVERY:
            continue
        looked, mistake = time.monotonic(), ""
        try:
            with get_client(sync_client=True) as client:
                for line in chain(dead_runs.mark(client), tell_changes(client, project)):
                    say(line)
        except httpx.HTTPError as error:
            mistake = f"the server {fault(error)}"
        except (InputError, RunError) as error:
            mistake = f"cannot check for changed data: {error}"
        except OSError as error:
            mistake = f"cannot check for changed data: {disk_error(error)}"
        if mistake and mistake != told:
            say(mistake)
        told = mistake


def _connect(url: str, auth: str) -> None:
    """Let Prefect use a server, in this process and in those that it starts."""
    from prefect.context import refresh_global_settings_context

    discovery.use(url, auth)
    refresh_global_settings_context()  # else this process' own calls would start a server for themselves


def listening(port: int) -> socket.socket:
    """Return a socket that listens on a port of the loopback address. Raises `RunError` if something else does."""
    try:
        return socket.create_server((LOOPBACK, port), backlog=BACKLOG)
    except OSError as error:
        raise RunError(
            f"port {port} cannot be used ({error.strerror}): give another --port, or, to use your own server there, "
            f"set {API}=http://{LOOPBACK}:{port}/api"
        ) from None


def unanswered() -> str:
    """Return what the configured server does that cannot be asked; nothing when it can."""
    from prefect.client.orchestration import get_client

    try:
        with get_client(sync_client=True) as client:
            error = client.api_healthcheck()
    except httpx.HTTPError as failure:
        error = failure
    return fault(error) if error else ""


def _check_password() -> None:
    """Raise `RunError` if the configured server refuses the password, which nobody can change while this process runs.

    One that does not answer yet is waited for later.
    """
    from prefect.client.orchestration import get_client

    if unanswered():
        return
    try:
        with get_client(sync_client=True) as client:
            client.read_flows(limit=1)  # nobody is asked for a password by the server's health
    except httpx.HTTPError as error:
        if is_refused(error):
            raise RunError(told(error)) from None


def answers(port: int) -> bool:
    """Return whether a Prefect server is on a port of the loopback address. Raises `RunError` for something else."""
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=10)
    try:
        connection.request("GET", "/api/health")
        answer = connection.getresponse()
    except ConnectionRefusedError:
        return False
    except OSError as error:
        raise RunError(f"port {port} is taken and does not answer ({error}): give --port") from None
    finally:
        connection.close()
    if answer.status != http.client.OK:
        raise RunError(f"port {port} is taken by something that is not a Prefect server: give --port")
    return True


if __name__ == "__main__":
    sys.exit(main())
