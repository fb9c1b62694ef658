"""What `make serve` does about its processes, without a server: small processes stand for the runner."""

import signal
import socket
import time
from contextlib import ExitStack

import psutil
import pytest
from serving import started

from tapeline.config.project import Project
from tapeline.orchestration import serve
from tapeline.runtime.errors import RunError


@pytest.fixture
def project(tmp_path, monkeypatch):
    for name, text in (("params.yaml", "{}"), ("prefect.yaml", "deployments: []")):
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(serve, "PAUSE", 0.0)
    return Project(tmp_path, tmp_path, tmp_path)


@pytest.fixture
def runner(project, monkeypatch):
    """Let a program stand for the runner; each of its starts is a line in `started`."""

    def stands(text=""):
        head = "import os, subprocess, sys, time\nprint(os.getpid(), file=open('started', 'a'))\n"
        (project.folder / "stand_in.py").write_text(head + text)
        monkeypatch.setattr(serve.Supervisor, "_command", lambda self: ["stand_in"])
        monkeypatch.setattr(serve, "unanswered", lambda: "")

    return stands


@pytest.fixture
def starts(project):
    """How often the runner was started."""
    return lambda: len((project.folder / "started").read_text().split()) if (project.folder / "started").exists() else 0


def test_the_runner_ends_before_the_server(project, monkeypatch):
    order = []

    class Server:
        auth = ""

        def __init__(self, *arguments, **options): ...

        def __enter__(self):
            return self

        def __exit__(self, *error):
            order.append("server")

    def stop(*arguments):
        raise KeyboardInterrupt

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    monkeypatch.setenv("PREFECT_API_URL", f"http://127.0.0.1:{port}/api")
    monkeypatch.setattr(serve, "KeptServer", Server)
    monkeypatch.setattr(serve, "_watch", stop)
    monkeypatch.setattr(serve.Supervisor, "start_runner", lambda self: None)
    monkeypatch.setattr(serve.Supervisor, "end", lambda self: order.append("runner"))
    handler = signal.getsignal(signal.SIGTERM)
    try:
        assert serve.main(["--port", str(port)]) == 0
    finally:
        signal.signal(signal.SIGTERM, handler)
    assert order == ["runner", "server"]


RUN = """
import pathlib, signal
def end(*_):
    pathlib.Path('checkpoint').touch()
    sys.exit()
signal.signal(signal.SIGTERM, end)
pathlib.Path('begun').touch()
time.sleep(60)
"""


def test_what_a_dead_runner_has_begun_is_ended_before_the_next_one(project, runner, starts, until):
    (project.folder / "run.py").write_text(f"import sys, time\n{RUN}")
    runner("run = subprocess.Popen([sys.executable, 'run.py'])\ntime.sleep(60)\n")
    supervisor = serve.Supervisor(project, port=0, worker=False, stack=ExitStack())
    supervisor.start_runner()
    try:
        until((project.folder / "begun").exists)
        psutil.Process(int((project.folder / "started").read_text())).kill()
        until(lambda: supervisor.look() or starts() == 2)
        assert (project.folder / "checkpoint").exists()
    finally:
        supervisor.end()


def test_a_runner_that_does_not_stay_is_given_up_and_not_while_the_server_is_away(
    project, runner, starts, until, monkeypatch, capfd
):
    runner("sys.exit(1)\n")
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    supervisor = serve.Supervisor(project, port=0, worker=False, stack=ExitStack())
    away = iter(["", "ConnectError"] * 6)  # there at each start, away when it ended
    monkeypatch.setattr(serve, "unanswered", lambda: next(away, ""))
    supervisor.start_runner()
    until(lambda: supervisor.look() or starts() == 6)
    with pytest.raises(RunError, match="the runner ended 4 times right after its start"):
        until(supervisor.look)
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [(), ("--worker",)])
def test_a_server_that_is_away_is_waited_for(project, until, arguments):
    process = started(project.folder, *arguments, server="http://127.0.0.1:9/api")
    try:
        log = project.folder / "serve.log"
        until(lambda: "waiting for" in log.read_text())
        time.sleep(1)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
        lines = [line for line in log.read_text().splitlines() if "does not answer" in line]
        assert (
            lines[0] == "serve: waiting for the server at http://127.0.0.1:9/api, which does not answer: ConnectError"
        )
        assert "Traceback" not in log.read_text()
    finally:
        process.kill()
        process.wait()
