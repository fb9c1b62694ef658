"""What `make serve` does about its processes, without a server: small processes stand for the runner."""

import signal
import socket

import pytest

from flows import serve
from tapeline.project import Project


@pytest.fixture
def project(tmp_path, monkeypatch):
    for name, text in (("params.yaml", "{}"), ("prefect.yaml", "deployments: []")):
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(serve, "PAUSE", 0.0)
    return Project(tmp_path, tmp_path, tmp_path)


def test_the_runner_ends_before_the_server(project, monkeypatch):
    order = []

    class Server:
        def __init__(self, *arguments, **options): ...

        def __enter__(self):
            return self

        def __exit__(self, *error):
            order.append("server")

        def ready(self):
            return ""

    def stop(*arguments):
        raise KeyboardInterrupt

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    monkeypatch.setenv("PREFECT_API_URL", f"http://127.0.0.1:{port}/api")
    monkeypatch.setattr(serve, "LocalServer", Server)
    monkeypatch.setattr(serve, "_watch", stop)
    monkeypatch.setattr(serve.Supervisor, "start_runner", lambda self: None)
    monkeypatch.setattr(serve.Supervisor, "end", lambda self: order.append("runner"))
    handler = signal.getsignal(signal.SIGTERM)
    try:
        assert serve.main(["--port", str(port)]) == 0
    finally:
        signal.signal(signal.SIGTERM, handler)
    assert order == ["runner", "server"]
