"""What a run leaves on a real server to be read and reacted to: its page, compared with others, and its event."""

import os
import re
import subprocess
import sys

import pytest


def git(folder, *arguments):
    who = ("-c", "user.name=t", "-c", "user.email=t@example.org")
    return subprocess.run(
        ["git", *who, *arguments], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def repository(project):
    def make(behaviour="well"):
        folder = project(behaviour)
        git(folder, "branch", "-M", "main")
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", "what is trained")
        return folder

    return make


@pytest.fixture
def flow(run, server, ask, until):
    """Run the flow; its exit status, its branch, its page and its events."""

    def finish(folder, *arguments):
        done = run(folder, "--pipeline", "tiny", *arguments, PREFECT_API_URL=server)
        name = re.search(r"Beginning flow run '([^']+)'", done.stderr)[1]
        [found] = ask("flow_runs", {"flow_runs": {"name": {"any_": [name]}}})
        pages = ask("artifacts", {"flow_runs": {"name": {"any_": [name]}}})
        [page] = [page["data"] for page in pages if page["key"] == "training-tiny"]

        def events():
            wanted = {"event": {"prefix": ["tapeline."]}, "any_resource": {"id": [f"prefect.flow-run.{found['id']}"]}}
            return ask("events", {"filter": wanted})["events"]

        return done.returncode, f"runs/{name}", page, events

    return finish


@pytest.mark.long
def test_a_run_is_compared_with_the_last_one_and_with_production(repository, flow, until):
    folder = repository()
    status, first, page, events = flow(folder, "--isolated")
    assert status == 0
    assert "last run" not in page, "there is none before the first"
    [event] = until(events)
    assert event["event"] == "tapeline.trained"
    assert event["resource"]["prefect.resource.id"] == "tapeline.pipeline.tiny"
    assert event["resource"]["tapeline.project"] == folder.name, "no worktree's"
    assert event["payload"]["metrics"]["accuracy"] == {"test": 0.975}
    assert event["payload"]["branch"] == first
    git(folder, "tag", "-am", "version", "tiny@v1.0.0", first)
    git(folder, "tag", "-am", "live", "tiny#prod#1", first)
    _, second, page, _ = flow(folder, "--isolated", "--set", "train.epochs=3")
    assert "| metric | test | val | train | bound |" in page
    assert "| accuracy | 0.975 |  |  | ≥ 0.9 |" in page
    assert f"- last run: `{first}`\n- production: `tiny#prod#1`\n" in page
    assert "| metric | this run | last run | production |" in page
    assert "| accuracy | 0.975 | 0.975 (+0) | 0.975 (+0) |" in page
    assert "![loss over steps](data:image/svg+xml;base64," in page
    assert "![confusion matrix](data:image/svg+xml;base64," in page
    assert f"$ git merge {second} && dvc checkout" in page
    git(folder, "tag", "-am", "taken back", "tiny#prod!#2", first)
    _, _, page, _ = flow(folder, "--isolated", "--set", "train.epochs=4")
    assert f"- last run: `{second}`\n" in page
    assert "| metric | this run | last run |\n" in page


@pytest.mark.slow
def test_a_missed_bound_is_an_event(repository, flow, until):
    folder = repository("misses")
    status, _, page, events = flow(folder)
    assert status == 1
    [event] = until(events)
    assert event["event"] == "tapeline.gate-failed"
    assert event["payload"]["verdict"] == "no: accuracy is 0.975, below its minimum 0.99"
    assert "$ tapeline run --pipeline tiny" in page


@pytest.mark.long
def test_what_changes_nothing_tells_nothing(repository, flow, until):
    folder = repository()
    assert until(flow(folder)[3])[0]["payload"]["branch"] is None
    status, _, page, events = flow(folder)
    assert status == 0
    assert "| train@tiny | unchanged |" in page
    assert events() == []


@pytest.mark.long
def test_a_promotion_is_an_event(root, server, ask, until, project):
    folder = project("well")
    told = (
        "from tapeline.config.project import Project; from tapeline.orchestration.reports.events import tell_promoted; "
        "given = {'version': 'v1.0.1', 'stage': 'prod', 'replaced': 'v1.0.0', 'metrics': {'accuracy': 0.9}}; "
        "tell_promoted(Project.find(), 'tiny', **given)"
    )
    environment = {**os.environ, "PYTHONPATH": str(root), "PREFECT_API_URL": server}
    subprocess.run([sys.executable, "-c", told], cwd=folder, env=environment, check=True, timeout=60)
    wanted = {"event": {"name": ["tapeline.promoted"]}, "any_resource": {"id": ["tapeline.model.tiny"]}}
    [event] = until(lambda: ask("events", {"filter": wanted})["events"])
    assert event["payload"] | {"version": "v1.0.1", "stage": "prod", "replaced": "v1.0.0"} == event["payload"]
    assert event["resource"]["tapeline.project"] == folder.name
