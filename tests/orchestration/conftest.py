"""A small project whose stages take no time, a Prefect server that runs schedules, and flows as processes."""

import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from importlib import metadata
from pathlib import Path

import httpx
import pytest
import waiting

ROOT = Path(__file__).resolve().parents[2]
TEMPLATE = Path(__file__).parent / "project"

sys.path.insert(0, str(ROOT))
os.environ["PREFECT_HOME"] = tempfile.mkdtemp(prefix="prefect-home-")  # the user's profile must not matter
os.environ["PREFECT_SERVER_ANALYTICS_ENABLED"] = "false"
os.environ["DO_NOT_TRACK"] = "1"
os.environ.pop("PREFECT_API_URL", None)

from prefect.client.orchestration import get_client  # noqa: E402  (after the home is set)
from prefect.events.worker import EventsWorker  # noqa: E402
from prefect.logging.handlers import APILogWorker  # noqa: E402
from prefect.settings import PREFECT_API_URL, temporary_settings  # noqa: E402

from tapeline.orchestration.schedules.dead_runs import DeadRuns  # noqa: E402
from tapeline.orchestration.schedules.liveness import locks  # noqa: E402
from tapeline.orchestration.stages.child import Child  # noqa: E402


@pytest.fixture(scope="session", autouse=True)
def _home():
    yield
    shutil.rmtree(os.environ["PREFECT_HOME"], ignore_errors=True)


@pytest.fixture(scope="module", autouse=True)
def _prefect_services():
    """End Prefect's threads with each module: their connection's pings draw from Python's global random generator.

    A recipe that is built in the meantime would start with other values than its second look. Not `package`: in folders
    without an `__init__.py` that means `session`.
    """
    yield
    for service in (EventsWorker, APILogWorker):
        service.drain_all(timeout=30, at_exit=False)


@pytest.fixture(scope="session")
def until():
    """Poll until something is so, a minute and a half unless told."""
    return lambda condition, *, limit=90.0: waiting.until(condition, limit=limit)


@pytest.fixture(scope="session")
def committed(tmp_path_factory):
    """The small project in a Git and DVC repository of its own, nothing of it run yet."""
    folder = tmp_path_factory.mktemp("committed") / "a project"
    shutil.copytree(TEMPLATE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / ".gitignore").write_text(".tapeline/\n")
    for command in (
        ["git", "init", "-q"],
        [sys.executable, "-P", "-m", "dvc", "init", "-q"],
        ["git", "add", "-A"],
        ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "all"],
    ):
        subprocess.run(command, cwd=folder, check=True)
    return folder


EMPTY = "empty.db"
"""A copy of the server's database from before anything used it."""


@pytest.fixture(scope="session")
def server_home(tmp_path_factory):
    """Where the server keeps its database."""
    return tmp_path_factory.mktemp("server")


@pytest.fixture(scope="session")
def server(server_home):
    """A real server with its scheduler, every few seconds; the address of its API."""
    with socket.create_server(("127.0.0.1", 0)) as listener, (server_home / "log").open("wb") as log:
        port = listener.getsockname()[1]
        app = [sys.executable, "-m", "uvicorn", "--factory", "prefect.server.api.server:create_app"]
        child = Child(
            [*app, "--fd", str(listener.fileno()), "--log-level", "warning"],
            cwd=server_home,
            env={
                **os.environ,
                "PREFECT_HOME": str(server_home),
                "PREFECT_UI_ENABLED": "false",
                "PREFECT_SERVER_SERVICES_SCHEDULER_LOOP_SECONDS": "3",
                "PREFECT_SERVER_SERVICES_SCHEDULER_RECENT_DEPLOYMENTS_LOOP_SECONDS": "2",
            },
            output=log,
            pass_fds=[listener.fileno()],
            at_our_death=signal.SIGKILL,
            grace=5,
        )
    with child:
        url = f"http://127.0.0.1:{port}/api"
        httpx.get(f"{url}/health", timeout=150, trust_env=False).raise_for_status()
        with closing(sqlite3.connect(server_home / "prefect.db")) as source:
            with closing(sqlite3.connect(server_home / EMPTY)) as target:
                source.backup(target)
        yield url


@pytest.fixture(autouse=True)
def _no_deployment_stays(request):
    """A schedule that a test leaves, with its late runs, keeps the server writing for all tests after it."""
    url = request.getfixturevalue("server") if "server" in request.fixturenames else None
    yield
    if url is None:
        return
    with httpx.Client(base_url=url, timeout=120, trust_env=False) as client:

        def answered(method, path):
            found = client.request(method, path, **({"json": {}} if method == "POST" else {}))
            return None if found.status_code == httpx.codes.SERVICE_UNAVAILABLE else found

        known = waiting.until(lambda: answered("POST", "/deployments/filter"), limit=200)
        for deployment in known.raise_for_status().json():
            path = f"/deployments/{deployment['id']}"
            waiting.until(lambda path=path: answered("DELETE", path), limit=200).raise_for_status()


@pytest.fixture(scope="session")
def api(server, until):
    """Call the server: `api("POST", "/flow_runs/filter", {...})`. Like Prefect's client it asks a busy one again."""
    with httpx.Client(base_url=server, timeout=120, trust_env=False) as client:

        def call(method, path, content=None):
            def answer():
                found = client.request(method, path, json=content)
                return None if found.status_code == httpx.codes.SERVICE_UNAVAILABLE else found

            found = until(answer).raise_for_status()
            return found.json() if found.content else None

        yield call


@pytest.fixture(scope="session")
def ask(api):
    """Ask for what fits a filter: `ask("flow_runs", {...})`."""
    return lambda what, content=None: api("POST", f"/{what}/filter", content or {})


@pytest.fixture(scope="session")
def is_marked_when_killed(server, api):
    """Kill a run's process, and look what becomes of the run and its lock: `assert is_marked_when_killed(...)`."""

    def look(project, child, run):
        assert list(locks(project)) == [(run["id"], True)]
        child.kill()
        child.communicate(timeout=60)
        with temporary_settings({PREFECT_API_URL: server}), get_client(sync_client=True) as client:
            told = list(DeadRuns(project).mark(client))
        assert told == [f"run {run['name']}: its process is gone: marked crashed"]
        return api("GET", f"/flow_runs/{run['id']}")["state_type"] == "CRASHED" and list(locks(project)) == []

    return look


@pytest.fixture(scope="session")
def database(server, server_home):
    """A made database of Prefect's, without a run: making one takes 5 s."""
    return server_home / EMPTY


@pytest.fixture
def project(committed, tmp_path):
    """Return a maker of projects by the behaviour of their train stage."""

    def make(behaviour="well"):
        folder = tmp_path / "a project"
        shutil.copytree(committed, folder)
        (folder / "behaviour").write_text(behaviour)
        return folder

    return make


@pytest.fixture
def with_database(database):
    """Give a project the database that its temporary server would make."""

    def give(folder):
        home = folder / ".tapeline/prefect" / metadata.version("prefect")
        home.mkdir(parents=True)
        shutil.copy(database, home / "prefect.db")
        (home / "made").touch()
        return home

    return give


def environment(**more):
    return {**os.environ, "PYTHONPATH": str(ROOT), **more}


class KilledOnFailure(subprocess.Popen):
    """A process that a failing test kills: one that it waited for hid its failure behind a timeout."""

    def __exit__(self, failure, *rest):
        if failure is not None:
            self.kill()
        super().__exit__(failure, *rest)


@pytest.fixture(scope="session")
def start():
    """Start `python -m flows.training` in a folder."""

    def popen(folder, *arguments, **more):
        return KilledOnFailure(
            [sys.executable, "-m", "flows.training", *arguments],
            cwd=folder,
            env=environment(**more),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return popen


@pytest.fixture(scope="session")
def run(start):
    """Run it to its end: exit status, standard output and standard error."""

    def finish(folder, *arguments, **more):
        with start(folder, *arguments, **more) as process:
            out, err = process.communicate(timeout=120)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    return finish
