"""What a flow asks the server while a stage runs, on a real one."""

import socket

import httpx
import pytest
from prefect import flow
from prefect.settings import PREFECT_API_URL, temporary_settings

from tapeline.orchestration.flows.monitor import PrefectMonitor


@pytest.fixture
def asked(server, monkeypatch):
    """The requests for a flow run that this process has sent to the server."""
    sent, send = [], httpx.Client.send

    def recorded(client, request, **options):
        if request.method == "GET" and "/flow_runs/" in str(request.url):
            sent.append(str(request.url))
        return send(client, request, **options)

    monkeypatch.setattr(httpx.Client, "send", recorded)
    with temporary_settings({PREFECT_API_URL: server}):
        yield sent


def test_a_line_of_output_is_no_request(asked):
    """A stage's output has a line for each step that is logged, and the server was asked for each."""

    @flow
    def trains():
        monitor = PrefectMonitor()
        asked.clear()
        for _ in range(200):
            monitor.look()
        lines = len(asked)
        monitor.look(at_once=True)
        return lines, len(asked)

    assert trains() == (0, 1)


def test_a_server_that_is_away_ends_no_training(asked):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]

    @flow
    def trains():
        monitor = PrefectMonitor()
        with temporary_settings({PREFECT_API_URL: f"http://127.0.0.1:{port}/api"}):
            monitor.look()
            monitor.look(at_once=True)
        return "trained"

    assert trains() == "trained"
