"""What a flow asks the server while a stage runs, on a real one."""

import socket
import time

import httpx
import pytest
import waiting
from prefect import flow, runtime, states
from prefect.client.orchestration import get_client
from prefect.flow_engine import run_flow
from prefect.settings import PREFECT_API_URL, temporary_settings

from tapeline.orchestration.flows import monitor
from tapeline.orchestration.flows.monitor import PrefectMonitor
from tapeline.orchestration.reports import progress_artifact


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
        watched = PrefectMonitor()
        asked.clear()
        for _ in range(200):
            watched.look()
        lines = len(asked)
        watched.look(at_once=True)
        return lines, len(asked)

    assert trains() == (0, 1)


def test_a_server_that_is_away_ends_no_training(asked):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]

    @flow
    def trains():
        watched = PrefectMonitor()
        with temporary_settings({PREFECT_API_URL: f"http://127.0.0.1:{port}/api"}):
            watched.look()
            watched.look(at_once=True)
        return "trained"

    assert trains() == "trained"


def test_a_server_that_hangs_holds_no_training_up(asked, monkeypatch):
    """Its stage waited until its output was read, and no timeout was kept: Prefect asks again for minutes."""
    monkeypatch.setattr(monitor, "LOOK", 0.0)
    monkeypatch.setattr(progress_artifact, "INTERVAL", 0.0)
    monkeypatch.setattr(progress_artifact, "PATIENCE", 0.5)

    @flow
    def trains(url):
        watched = PrefectMonitor()
        bar = watched.bar("train@tiny")
        with temporary_settings({PREFECT_API_URL: url}):
            began = time.monotonic()
            for done in range(1, 11):
                watched.look()
                bar.follow({"event": "progress", "done": done, "total": 10, "unit": "steps"})
            bar.complete()
            return time.monotonic() - began

    with socket.create_server(("127.0.0.1", 0)) as hangs:  # it takes connections, and never answers
        assert trains(f"http://127.0.0.1:{hangs.getsockname()[1]}/api") < 30


def test_a_run_of_a_deployment_ends_itself_where_its_worker_does_not(asked, monkeypatch):
    """A worker that was killed, or whose server was away for half a minute, looks no more: the run trained on."""
    monkeypatch.setattr(monitor, "LOOK", 0.0)
    monkeypatch.setattr(monitor, "WORKER", 0.5)

    @flow
    def trains():
        watched = PrefectMonitor()
        watched.look()
        with get_client(sync_client=True) as client:
            client.set_flow_run_state(runtime.flow_run.id, states.Cancelling())
        watched.look()  # the worker has this long
        time.sleep(0.6)
        with pytest.raises(monitor.Cancelled):
            waiting.until(watched.look, limit=30)

    with get_client(sync_client=True) as client:
        deployment = client.create_deployment(client.create_flow(trains), "watched")
        run = client.create_flow_run_from_deployment(deployment)
        run_flow(trains, flow_run=run, return_type="state")
        assert client.read_flow_run(run.id).state.is_cancelling(), "as the flow above has left it"
