"""The flow as a deployment on a real server: its schedule creates runs, and cancelling one ends its processes."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from surroundings import below

ROOT = Path(__file__).resolve().parents[2]

SERVE = """
from datetime import timedelta
from flows.training import training
if __name__ == "__main__":
    training.serve(name="{name}", parameters={{"pipeline": "tiny", **{more}}}, {schedule})
"""


@pytest.fixture
def serve(server):
    """Serve the flow from a folder, as a process."""
    started = []

    def popen(folder, name, schedule="", **more):
        (folder / "serve.py").write_text(SERVE.format(name=name, schedule=schedule, more=more))
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PREFECT_API_URL": server,
            "PREFECT_RUNNER_POLL_FREQUENCY": "1",
        }
        process = subprocess.Popen([sys.executable, "serve.py"], cwd=folder, env=environment)
        started.append(process)
        return process

    yield popen
    for process in started:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=30)
            continue
        # Prefect's runner, not Tapeline's: it hangs if the signal comes while it starts a run
        for left in [*psutil.Process(process.pid).children(recursive=True), process]:
            with suppress(psutil.NoSuchProcess):
                left.kill()
        process.wait()


@pytest.mark.slow
def test_a_schedule_creates_runs_and_finishes_them(project, serve, ask, until):
    folder = project()
    serve(folder, "often", "interval=timedelta(seconds=5)")

    def completed():
        runs = ask(
            "flow_runs",
            {"deployments": {"name": {"any_": ["often"]}}, "flow_runs": {"state": {"type": {"any_": ["COMPLETED"]}}}},
        )
        return [run for run in runs if run["auto_scheduled"]]

    until(completed, limit=200)
    assert (folder / "models/tiny/model.json").exists()


@pytest.mark.in_ci(1)
@pytest.mark.slow
@pytest.mark.parametrize("isolated", [False, True])
def test_cancelling_a_run_on_the_server_ends_its_processes(project, serve, api, ask, until, isolated):
    folder = project("waits")
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run([*git, "branch", "-M", "main"], cwd=folder, check=True)
    subprocess.run([*git, "add", "-A"], cwd=folder, check=True)
    subprocess.run([*git, "commit", "-qm", "what waits"], cwd=folder, check=True)
    name = f"cancelled-{isolated}"
    serving = serve(folder, name, isolated=isolated)
    [deployment] = until(lambda: ask("deployments", {"deployments": {"name": {"any_": [name]}}}))
    run = api("POST", f"/deployments/{deployment['id']}/create_flow_run", {"state": {"type": "SCHEDULED"}})
    until((folder / ".tapeline/checkpoints/tiny/waiting").exists, limit=200)
    api("POST", f"/flow_runs/{run['id']}/set_state", {"state": {"type": "CANCELLING"}})
    until(lambda: api("GET", f"/flow_runs/{run['id']}")["state_type"] == "CANCELLED", limit=200)
    only = {"flow_runs": {"id": {"any_": [run["id"]]}}, "task_runs": {"name": {"any_": ["train@tiny"]}}}
    assert until(lambda: [task["state_name"] for task in ask("task_runs", only)]) == ["Cancelled"], "it was Crashed"
    left = [process.info for process in below(folder) if {"dvc", "stage.py"} & {*(process.info["cmdline"] or ())}]
    assert left == [], "the flow's process ends when its children have"
    assert serving.poll() is None
    assert (folder / ".tapeline/checkpoints/tiny/step").read_text() == "17"
    left = folder / ".tapeline/worktrees"
    assert not left.exists() or [path for path in left.iterdir() if path.is_dir()] == []


@pytest.mark.long
def test_a_run_that_is_cancelled_ends_where_its_runner_hangs(project, serve, api, ask, until):
    """It trained to its end, and was Cancelling meanwhile: after a server's restart, too, Prefect's runner does nothing."""
    folder = project("waits")
    serving = serve(folder, "left alone")
    [deployment] = until(lambda: ask("deployments", {"deployments": {"name": {"any_": ["left alone"]}}}))
    run = api("POST", f"/deployments/{deployment['id']}/create_flow_run", {"state": {"type": "SCHEDULED"}})
    until((folder / ".tapeline/checkpoints/tiny/waiting").exists, limit=200)
    serving.send_signal(signal.SIGSTOP)
    try:
        api("POST", f"/flow_runs/{run['id']}/set_state", {"state": {"type": "CANCELLING"}})
        until(lambda: api("GET", f"/flow_runs/{run['id']}")["state_type"] == "CANCELLED", limit=200)
        assert (folder / ".tapeline/checkpoints/tiny/step").read_text() == "17"
    finally:
        serving.send_signal(signal.SIGCONT)
