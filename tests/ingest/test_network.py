import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from tapeline.ingest.network import unreachable


class Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(int(self.path.removeprefix("/")))
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")


@pytest.mark.parametrize("status", [200, 403, 404])
def test_any_answer_of_the_host_is_one(server: str, status: int) -> None:
    assert unreachable(f"{server}/{status}") is None


def test_a_server_error_is_none(server: str) -> None:
    assert unreachable(f"{server}/503") == "HTTP status 503"


def test_a_closed_port_is_told_at_once() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        assert unreachable(f"http://127.0.0.1:{held.getsockname()[1]}") == "ConnectionError"


def test_a_host_that_never_answers_is_not_waited_for() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        start = time.monotonic()
        reason = unreachable(f"http://127.0.0.1:{silent.getsockname()[1]}", deadline=0.3)
        assert reason in {"no answer in 0.3 s", "ReadTimeout"}
        assert time.monotonic() - start < 20


def test_a_host_that_drips_is_not_waited_for() -> None:
    with socket.socket() as dripping:
        dripping.bind(("127.0.0.1", 0))
        dripping.listen()

        def drip() -> None:
            connection, _ = dripping.accept()
            with connection, contextlib.suppress(OSError):
                for byte in b"HTTP/1.1 200 OK" * 3:
                    connection.send(bytes([byte]))
                    time.sleep(0.1)  # well within the time that a socket waits for the next byte

        threading.Thread(target=drip, daemon=True).start()
        start = time.monotonic()
        assert unreachable(f"http://127.0.0.1:{dripping.getsockname()[1]}", deadline=0.5) == "no answer in 0.5 s"
        assert time.monotonic() - start < 20


@pytest.mark.parametrize("url", ["ftp://127.0.0.1:9/x", "gs://bucket/x", "/a/path"])
def test_other_schemes_are_not_asked(url: str) -> None:
    assert unreachable(url) is None


def test_a_dead_proxy_is_a_dead_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_PROXY")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert unreachable("http://example.org/x") == "ProxyError"
