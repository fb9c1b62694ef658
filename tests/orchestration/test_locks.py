"""Locks of runs, looked at while other processes take them, free them and tidy them away."""

import fcntl
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import httpx
import pytest
import servers
import waiting

from tapeline.config.project import Project
from tapeline.orchestration.isolation import isolated_run
from tapeline.orchestration.schedules import liveness
from tapeline.runtime import processes
from tapeline.runtime.locks import is_held


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.setattr(liveness, "MOMENT", 0.0)
    (tmp_path / liveness.FOLDER).mkdir()
    return Project(tmp_path, tmp_path, tmp_path)


def test_a_run_whose_lock_nobody_holds_is_dead(project):
    (project.shared / liveness.FOLDER / "dead").touch()
    assert list(liveness.locks(project)) == [("dead", False)]
    liveness.forget(project, "dead")
    assert list(liveness.locks(project)) == []


LOADS = "import sys, flows.training; print('loaded', flush=True); sys.stdin.readline()"


@pytest.fixture
def run(committed, root):
    """A process that a runner has started for a flow run and that has only loaded the flow yet; no server knows it."""
    command = [sys.executable, "-c", LOADS]
    paths = os.pathsep.join([str(root), str(root / "src")])
    environment = {**os.environ, "PYTHONPATH": paths, "PREFECT__FLOW_RUN_ID": "given"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, cwd=committed, env=environment, **pipes) as process:
        assert process.stdout.readline() == b"loaded\n"
        yield process
        process.kill()


def test_a_run_holds_its_lock_until_its_process_ends(run, committed):
    project = Project.find(committed)
    assert list(liveness.locks(project)) == [("given", True)]
    run.communicate(b"\n", timeout=60)
    assert list(liveness.locks(project)) == []


def test_who_only_looks_keeps_no_run_from_its_lock(project, monkeypatch):
    monkeypatch.setattr(liveness, "MOMENT", 60.0)
    path = project.shared / liveness.FOLDER / "looked at"
    with path.open("w") as looking:
        fcntl.flock(looking, fcntl.LOCK_EX)
        monkeypatch.setattr(liveness.time, "sleep", lambda seconds: looking.close())
        liveness.hold(project, path.name)
    assert is_held(path)


def test_a_run_that_was_killed_leaves_a_lock_that_nobody_holds(run, committed):
    project = Project.find(committed)
    run.kill()
    run.wait(timeout=60)
    assert list(liveness.locks(project)) == [("given", False)]
    liveness.forget(project, "given")


def test_a_run_that_ends_while_it_is_looked_at_is_not_dead(project, monkeypatch):
    path = project.shared / liveness.FOLDER / "ends"
    path.touch()

    def look(lock):
        lock.unlink(missing_ok=True)
        return False

    monkeypatch.setattr(liveness, "is_held", look)
    assert list(liveness.locks(project)) == []


def test_a_run_that_has_not_taken_its_lock_yet_is_not_dead(project, monkeypatch):
    (project.shared / liveness.FOLDER / "begins").touch()
    looks = iter([False, True])
    monkeypatch.setattr(liveness, "is_held", lambda lock: next(looks))
    assert list(liveness.locks(project)) == [("begins", True)]


def old(path):
    path.touch()
    os.utime(path, (0, 0))
    return path


def test_an_old_lock_goes_and_one_that_is_held_stays(tmp_path):
    left, held, new = (tmp_path / f"{isolated_run.SAME}{name}" for name in ("left", "held", "new"))
    old(left), new.touch()
    with processes.exclusive(held, waiting=print):
        old(held)
        isolated_run.tidy(tmp_path)
        assert sorted(tmp_path.iterdir()) == [held, new]


def test_two_runs_tidy_at_once(tmp_path, monkeypatch):
    old(tmp_path / f"{isolated_run.SAME}left")
    gone = tmp_path / f"{isolated_run.SAME}gone"
    monkeypatch.setattr(Path, "glob", lambda folder, pattern: [gone, tmp_path / f"{isolated_run.SAME}left"])
    isolated_run.tidy(tmp_path)
    assert list(tmp_path.iterdir()) == []


TRAINS = """
import sys
from prefect import flow
from tapeline.config.project import Project
from tapeline.orchestration.flows.monitor import hold_own

@flow
def trains():
    hold_own(Project.find())
    print("held", flush=True)
    sys.stdin.readline()

trains()
"""


@pytest.mark.in_ci(1)
@pytest.mark.slow
@pytest.mark.parametrize("away", [False, True])
def test_the_lock_of_a_run_whose_end_no_server_knows_stays(committed, root, tmp_path, away):
    """The run was Running for ever: its process had ended in order, so that nobody looked for it."""
    project = Project.find(committed)
    with servers.running(tmp_path) as client:
        waiting.until(lambda: _answers(client), limit=150)
        url = str(client.base_url).rstrip("/")
        environment = {**os.environ, "PREFECT_API_URL": url, "PREFECT_CLIENT_MAX_RETRIES": "0"}
        environment["PYTHONPATH"] = str(root / "src")
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        process = subprocess.Popen([sys.executable, "-c", TRAINS], cwd=committed, env=environment, **pipes)
        assert process.stdout.readline() == b"held\n"
        [(run, is_alive)] = liveness.locks(project)
        assert is_alive
        if not away:
            process.communicate(b"\n", timeout=120)
    if away:
        process.communicate(b"\n", timeout=120)
    assert list(liveness.locks(project)) == ([(run, False)] if away else [])
    liveness.forget(project, run)


def _answers(client):
    try:
        return client.get("/health").is_success
    except httpx.HTTPError:
        return False


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become somebody else")
@pytest.mark.parametrize(("mode", "held", "free"), [(0o644, True, False), (0o600, True, True)])
def test_the_lock_of_another_user_is_looked_at_if_it_can_be_read_and_else_left_alone(mode, held, free):
    """It ended `serve`, and every isolated run, with `Permission denied`."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        path = Path(folder, "run.lock")
        path.touch()
        path.chmod(mode)
        with path.open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            assert as_nobody(is_held, path) is held
        assert as_nobody(is_held, path) is free


def as_nobody(function, path):
    """Return what a function says in a process of another user."""
    if child := os.fork():
        return {0: False, 1: True}[os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])]
    try:
        os.setuid(65534)
        os._exit(function(path))
    finally:
        os._exit(2)
