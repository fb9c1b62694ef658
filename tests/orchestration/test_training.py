"""The training flow on a running server: what it runs, says, shows and leaves."""

import re
import shutil
import signal
import sys
from pathlib import Path

import pytest

STAGES = ["ingest@points", "train@tiny", "validate@tiny", "export@tiny"]

# Every Python process that has `site` writes down what it is.
WITNESS = """
import os, sys
with open({path!r}, "a") as file:
    print(" ".join(sys.orig_argv), file=file)
"""


def make(committed, folder, behaviour):
    shutil.copytree(committed, folder)
    (folder / "behaviour").write_text(behaviour)
    return folder


class Flow:
    """One run of the flow, and what the server knows of it."""

    def __init__(self, done, ask):
        self.done = done
        name = re.search(r"Beginning flow run '([^']+)'", done.stderr)[1]
        [self.run] = ask("flow_runs", {"flow_runs": {"name": {"any_": [name]}}})
        only = {"flow_runs": {"id": {"any_": [self.run["id"]]}}}
        self.tasks = sorted(ask("task_runs", only), key=lambda task: task["start_time"])
        self.artifacts = {artifact["key"]: artifact for artifact in ask("artifacts", only)}
        self.logs = ask("logs", {"logs": {"flow_run_id": {"any_": [self.run["id"]]}}, "sort": "TIMESTAMP_ASC"})

    def lines(self, name):
        task = next(task for task in self.tasks if task["name"] == name)
        return [record["message"] for record in self.logs if record["task_run_id"] == task["id"]]


@pytest.fixture(scope="module")
def folder(committed, tmp_path_factory):
    return make(committed, tmp_path_factory.mktemp("training") / "a project", "crawls")


@pytest.fixture(scope="module")
def first(folder, run, server, ask):
    return Flow(run(folder, "--pipeline", "tiny", PREFECT_API_URL=server), ask)


@pytest.fixture(scope="module")
def witnessed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("witness")
    (folder / "sitecustomize.py").write_text(WITNESS.format(path=str(folder / "started")))
    return folder


@pytest.fixture(scope="module")
def second(first, folder, run, server, ask, witnessed):
    path = f"{Path(__file__).resolve().parents[2]}:{witnessed}"
    return Flow(run(folder, "--pipeline", "tiny", PREFECT_API_URL=server, PYTHONPATH=path), ask)


@pytest.fixture(scope="module")
def refused(committed, tmp_path_factory, run, server, ask):
    folder = make(committed, tmp_path_factory.mktemp("refused") / "a project", "refuses")
    return Flow(run(folder, "--pipeline", "tiny", PREFECT_API_URL=server), ask)


def test_a_first_run_runs_every_stage_as_a_task_of_its_name(first, folder):
    assert first.done.returncode == 0, first.done.stderr
    assert first.run["state_type"] == "COMPLETED"
    assert [task["name"] for task in first.tasks] == STAGES
    assert [task["state_name"] for task in first.tasks] == ["Completed"] * 4
    assert (folder / "ran.log").read_text().split() == STAGES
    assert (folder / "dvc.lock").exists()


def test_a_stage_s_output_is_in_the_flow_s_log_line_by_line(first):
    lines = first.lines("train@tiny")
    assert lines.index("first line") < lines.index("last | line")
    assert first.done.stderr.count("first line") == 1
    assert "train@tiny  first line\n" in first.done.stderr


def test_dvc_s_advice_is_not(first):
    assert "git add" not in first.done.stderr


def test_the_progress_of_training_is_an_artifact(first):
    artifact = first.artifacts["train-tiny"]
    assert artifact["type"] == "progress"
    assert artifact["data"] == 100
    assert artifact["description"] == "5 of 5 steps, epoch 4, loss 0.2"


def test_the_report_is_an_artifact_and_a_few_lines_in_the_terminal(first):
    page = first.artifacts["training-tiny"]["data"]
    assert "Verdict: **yes**" in page
    assert "Model: `models/tiny`" in page
    assert "| train@tiny | ran |" in page
    assert "| accuracy | 0.975 |  |  | ≥ 0.9 |" in page
    assert "| loss | 0.3 | 0.25 | 0.2 |  |" in page
    assert "precision" not in page
    summary = first.done.stdout.splitlines()
    assert [line.split()[:2] for line in summary[:4]] == [[name, "ran"] for name in STAGES]
    assert summary[4:] == ["verdict yes  accuracy 0.975", "model models/tiny"]


def test_a_second_run_leaves_every_stage_unchanged(second, folder):
    assert second.done.returncode == 0, second.done.stderr
    assert [task["name"] for task in second.tasks] == STAGES
    assert [(task["state_type"], task["state_name"]) for task in second.tasks] == [("COMPLETED", "unchanged")] * 4
    assert second.run["state"]["message"] == "nothing to do"
    assert (folder / "ran.log").read_text().split() == STAGES
    assert "| train@tiny | unchanged |" in second.artifacts["training-tiny"]["data"]
    assert "train-tiny" not in second.artifacts


def test_a_second_run_starts_no_process(second, witnessed):
    started = (witnessed / "started").read_text().splitlines()
    assert len(started) == 1, started
    assert "-m flows.training" in started[0]


def test_a_stage_that_fails_fails_its_task_and_the_flow_with_its_own_last_line(refused):
    message = "the batch is larger than the data: make it smaller"
    assert [(task["name"], task["state_name"]) for task in refused.tasks] == [
        ("ingest@points", "Completed"),
        ("train@tiny", "Failed"),
    ]
    assert refused.tasks[1]["state"]["message"] == message
    assert refused.run["state_type"] == "FAILED"
    assert refused.run["state"]["message"] == message
    assert "| train@tiny | input |" in refused.artifacts["training-tiny"]["data"]


def test_the_process_ends_with_the_stage_s_status_and_one_clear_line(refused):
    assert refused.done.returncode == 2
    line = "training: train@tiny: the batch is larger than the data: make it smaller"
    assert refused.done.stderr.splitlines()[-1] == line
    assert "Traceback" not in refused.done.stderr
    assert "NoneType" not in refused.done.stderr


@pytest.mark.slow
def test_outputs_in_dvc_s_cache_are_restored_and_the_rest_is_unchanged(second, folder, run, server, ask):
    (folder / "behaviour").write_text("well")
    assert run(folder, "--pipeline", "tiny", PREFECT_API_URL=server).returncode == 0
    (folder / "behaviour").write_text("crawls")
    again = Flow(run(folder, "--pipeline", "tiny", PREFECT_API_URL=server), ask)
    assert [task["state_name"] for task in again.tasks] == ["unchanged", "restored", "unchanged", "unchanged"]
    assert sys.executable not in again.done.stdout


@pytest.mark.slow
def test_what_a_killed_dvc_left_is_mended_and_said(second, folder, run, server, ask):
    lock = (folder / "dvc.lock").read_bytes()
    (folder / ".dvc" / "tmp" / "rwlock").write_text('{"write": {"da')
    (folder / "dvc.lock").write_bytes(lock[: len(lock) // 2 - 3])
    flow = Flow(run(folder, "--pipeline", "tiny", PREFECT_API_URL=server), ask)
    said = [record["message"] for record in flow.logs]
    assert any(message.endswith("rwlock: was truncated; emptied it") for message in said)
    assert any("dvc.lock: was truncated" in message for message in said)
    assert flow.run["state_type"] == "COMPLETED"
    assert (folder / "dvc.lock").read_bytes() == lock


NEWEST = {"flow_runs": {"state": {"type": {"any_": ["RUNNING"]}}}, "sort": "START_TIME_DESC", "limit": 1}
"""The run that a test started last: a run that another test killed may seem to run still."""


@pytest.mark.slow
def test_a_run_that_is_cancelled_on_the_server_ends_with_a_checkpoint(project, start, run, server, ask, api, until):
    """It trained to the end, and stayed Cancelling."""
    folder = project("waits")
    with start(folder, "--pipeline", "tiny", PREFECT_API_URL=server) as flow:
        until((folder / ".tapeline/checkpoints/tiny/waiting").exists, limit=200)
        [begun] = ask("flow_runs", NEWEST)
        cancelling = {"state": {"type": "CANCELLING", "name": "Cancelling"}}
        api("POST", f"/flow_runs/{begun['id']}/set_state", cancelling)
        _, err = flow.communicate(timeout=120)
    assert flow.returncode == 128 + signal.SIGTERM, err
    assert "checkpoint at step 17" in err
    assert err.splitlines()[-1] == "training: cancelled in Prefect; run again to resume"
    assert "Traceback" not in err
    [ended] = ask("flow_runs", {"flow_runs": {"id": {"any_": [begun["id"]]}}})
    assert ended["state_type"] == "CANCELLED"
    again = run(folder, "--pipeline", "tiny", PREFECT_API_URL=server)
    assert again.returncode == 0 and "resuming from step 17" in again.stderr


DELETES = f"""
    import httpx
    api = os.environ["PREFECT_API_URL"]
    [run] = httpx.post(f"{{api}}/flow_runs/filter", json={NEWEST!r}, trust_env=False).json()
    httpx.delete(f"{{api}}/flow_runs/{{run['id']}}", trust_env=False).raise_for_status()
"""


@pytest.mark.long
@pytest.mark.parametrize("fails", [False, True])
def test_a_run_that_is_deleted_on_the_server_is_one_line(project, run, server, fails):
    """It was a traceback, after a training to the end."""
    folder = project()
    stage = folder / "stage.py"
    written = '    write(project.model(name) / "model.json", "{}")\n'
    ends = "    sys.exit(3)\n" if fails else ""
    assert written in stage.read_text()
    stage.write_text(stage.read_text().replace(written, written + DELETES + ends))
    done = run(folder, "--pipeline", "tiny", PREFECT_API_URL=server)
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    said = "the run was deleted on the Prefect server; run again to resume"
    assert done.stderr.splitlines()[-1] == f"training: {said}"
    assert (folder / "models/tiny/model.json").exists()


CANCELS = f"""
    import httpx
    api = os.environ["PREFECT_API_URL"]
    [run] = httpx.post(f"{{api}}/flow_runs/filter", json={NEWEST!r}, trust_env=False).json()
    wanted = {{"state": {{"type": "CANCELLING", "name": "Cancelling"}}}}
    httpx.post(f"{{api}}/flow_runs/{{run['id']}}/set_state", json=wanted, trust_env=False).raise_for_status()
"""


@pytest.mark.slow
def test_a_run_that_is_cancelled_in_its_last_moment_is_cancelled_too(project, run, server, ask):
    folder = project()
    stage = folder / "stage.py"
    written = '    write(project.model(name) / "model.json", "{}")\n'
    assert written in stage.read_text()
    stage.write_text(stage.read_text().replace(written, written + CANCELS))
    done = run(folder, "--pipeline", "tiny", PREFECT_API_URL=server)
    assert done.returncode == 128 + signal.SIGTERM and "Traceback" not in done.stderr, done.stderr
    assert done.stderr.splitlines()[-1] == "training: cancelled in Prefect; run again to resume"
    name = re.search(r"Beginning flow run '([^']+)'", done.stderr)[1]
    [ended] = ask("flow_runs", {"flow_runs": {"name": {"any_": [name]}}})
    assert ended["state_type"] == "CANCELLED"
