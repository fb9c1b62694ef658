"""`prefect.yaml` on a real server: what is deployed, served, removed; and that dead runs block nothing."""

import math
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import httpx
import psutil
import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import DeploymentUpdate
from prefect.client.schemas.objects import StateType
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Pending
from serving import commit, entry, environment, prepare, write
from serving import started as start
from surroundings import below, started_by

from tapeline.config.project import Project
from tapeline.orchestration.schedules import dead_runs, liveness
from tapeline.orchestration.schedules.deployments import read
from tapeline.runtime.errors import InputError


@pytest.fixture
def checkout(project):
    """Return a maker of projects with flows of their own."""

    def make(behaviour="well"):
        folder = project(behaviour)
        prepare(folder)
        return folder

    return make


@pytest.fixture
def deploy(server):
    def call(folder):
        command = [sys.executable, "-m", "flows.deploy"]
        done = subprocess.run(command, cwd=folder, env=environment(server), capture_output=True, text=True, check=False)
        return done.returncode, done.stdout.splitlines(), done.stderr

    return call


@pytest.fixture
def serve(server):
    """Serve a folder's `prefect.yaml`; with `own` on a server of its own. What it said is shown where a test fails."""
    started, logs = [], {}

    def popen(folder, *arguments, own=False):
        process = start(folder, *arguments, server=None if own else server)
        started.append(process)
        logs[folder / "serve.log"] = None
        return process

    yield popen
    for process in started:
        if process.poll() is None:
            process.terminate()
        process.wait(timeout=120)
    for log in filter(Path.exists, logs):  # a project may have moved
        print(log.read_text())


@pytest.fixture
def runs(ask):
    def find(name, *states):
        wanted = {"deployments": {"name": {"any_": [name]}}}
        return [run for run in ask("flow_runs", wanted) if not states or run["state_type"] in states]

    return find


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"concurrency_limit": {"limit": 0}}, "concurrency_limit"),
        ({"schedules": [{"cron": "0 3 * * *", "interval": 20}]}, "a schedule has either cron or interval"),
        ({"schedules": [{"crn": "0 3 * * *"}]}, "crn: no such setting; did you mean 'cron'?"),
        ({"schedules": [{"cron": "61 3 * * *"}]}, "'61 3 * * *' is not a cron expression, such as 0 3 * * *"),
        ({"schedules": [{"interval": 60, "anchor_date": "tomorrow"}]}, "'tomorrow' is not a date"),
        ({"schedules": [{"interval": 60, "timezone": "Mars/Phobos"}]}, "'Mars/Phobos' is not a time zone"),
        ({"name": "a/b"}, "deployments.0.name"),
        ({"entrypoint": "flows.training"}, "entrypoint"),
        ({"concurency_limit": 1}, "concurency_limit: no such setting; did you mean 'concurrency_limit'?"),
        ({"schedule": {"cron": "0 3 * * *"}}, "schedule has no effect: write schedules, a list"),
        ({"paused": "maybe"}, "paused"),
        ({"concurrency_limit": -1}, "concurrency_limit is -1: must be a mapping or greater than 0"),
        ({"schedules": [{"slug": "a", "interval": 60}] * 2}, "two schedules have the slug 'a': give one another"),
        ({"schedules": [{"interval": 0.001}]}, "interval is 0.001: must be greater than or equal to 1"),
        ({"schedules": [{"interval": 1e20}]}, "must be less than or equal to 316224000"),
        (
            {"parameters": {"overrides": {"train.seed": 2**64}}},
            "parameters.overrides: an integer has more than 64 bits",
        ),
        ({"parameters": {"overrides": {"params.a": math.inf}}}, "parameters.overrides: a number is not finite"),
    ],
)
def test_a_mistake_in_the_file_is_one_line(tmp_path, change, message):
    write(tmp_path, entry("a") | change)
    with pytest.raises(InputError, match=r"^prefect\.yaml") as refusal:
        read(tmp_path / "prefect.yaml")
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


SERVE = [sys.executable, "-P", "-m", "tapeline.orchestration.serve"]


@pytest.mark.parametrize("port", ["-1", "0", "65536", "99999"])
def test_what_is_no_port_is_one_line(tmp_path, root, port):
    environment = {**os.environ, "PYTHONPATH": str(root / "src")}
    done = subprocess.run(
        [*SERVE, "--port", port], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert done.stderr == f"serve: --port is {port}: it must be from 1 to 65535\n"


@pytest.mark.slow
def test_a_read_only_project_is_one_line(checkout, root):
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode:
        pytest.skip("this system lets nobody make a mount namespace")
    folder = checkout()
    write(folder, entry("a"))
    (folder / ".tapeline").mkdir(exist_ok=True)
    mounted = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o ro none .tapeline && exec "$@"', "sh"]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = {**os.environ, "PYTHONPATH": str(root / "src")}
    done = subprocess.run(
        [*mounted, *SERVE, "--port", str(port)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert done.stderr.splitlines()[-1].startswith("serve: not writable or readable (")
    assert "Traceback" not in done.stderr


def test_what_prefect_knows_besides_is_taken(tmp_path):
    write(tmp_path, entry("a") | {"paused": True, "version": "1", "pull": [], "enforce_parameter_schema": False})
    [deployment] = read(tmp_path / "prefect.yaml")
    assert (deployment.paused, deployment.version) == (True, "1")


def test_a_deployment_is_served_as_the_file_has_it(checkout, monkeypatch):
    from tapeline.orchestration.schedules.runner import served

    folder = checkout()
    write(folder, entry("a") | {"paused": True, "version": "7", "enforce_parameter_schema": False})
    monkeypatch.chdir(folder)
    [wanted] = read(folder / "prefect.yaml")
    found = served(wanted, folder)
    assert (found.paused, found.version, found.enforce_parameter_schema) == (True, "7", False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"entrypoint": "flows/nope.py:training"}, "training/a: there is no file flows/nope.py"),
        ({"entrypoint": "own.py:nope"}, "nope/a: own.py cannot be loaded: MissingFlowError: Flow function with name"),
        ({"entrypoint": "broken.py:train"}, "train/a: broken.py cannot be loaded: ZeroDivisionError: division by zero"),
        ({"entrypoint": "leaves.py:train"}, "train/a: leaves.py cannot be loaded: SystemExit: 3"),
        ({"parameters": {"retries": "many"}}, "train/a: parameters.retries: 'many' is not of type 'integer'"),
        (
            {"schedules": [{"interval": 60, "parameters": {"retries": "few"}}]},
            "train/a: parameters.retries: 'few' is not of type 'integer'",
        ),
        ({"parameters": {"retry": 1}}, "train/a: parameters.retry: the flow has no such parameter: it has retries"),
        (
            {"schedules": [{"interval": 60, "parameters": {"retry": 1}}], "enforce_parameter_schema": False},
            "train/a: parameters.retry: the flow has no such parameter: it has retries",
        ),
    ],
)
def test_a_mistake_in_a_flow_is_one_line(tmp_path, monkeypatch, change, message):
    from tapeline.orchestration.schedules.runner import served

    flow = "from prefect import flow\n\n\n@flow\ndef train(retries: int = 0): ...\n"
    for name, text in (("own", flow), ("broken", f"1 / 0\n{flow}"), ("leaves", "import sys\n\nsys.exit(3)\n")):
        (tmp_path / f"{name}.py").write_text(text)
    write(tmp_path, entry("a") | {"entrypoint": "own.py:train", "parameters": {}} | change)
    monkeypatch.chdir(tmp_path)
    [wanted] = read(tmp_path / "prefect.yaml")
    with pytest.raises(InputError) as refusal:
        served(wanted, tmp_path)
    assert str(refusal.value).startswith(f"prefect.yaml: {message}")
    assert "\n" not in str(refusal.value)


def test_the_file_that_comes_along_is_right(root):
    names = [deployment.full_name for deployment in read(root / "prefect.yaml")]
    assert names == ["training/digits", "training/linear-regression", "training/by-hand"]


def test_what_an_event_starts_waits_for_the_run_that_goes_on(root):
    """It tells of a change once: a run that is cancelled would lose it."""
    limits = [deployment.concurrency_limit for deployment in read(root / "prefect.yaml") if deployment.triggers]
    assert [limit.collision_strategy for limit in limits] == ["ENQUEUE"]


@pytest.mark.slow
def test_the_deploy_command_brings_the_server_to_the_file(checkout, deploy, ask):
    folder = checkout()
    own = partial(entry, pool="its own")  # the server keeps the work pools of the tests before
    write(folder, own("nightly", every=3600), own("gone"))
    created = ["created work pool its own", "created training/gone", "created training/nightly"]
    assert deploy(folder) == (0, created, "")
    assert deploy(folder)[:2] == (0, ["nothing changed"])
    schedules = [schedule["schedule"] for deployment in ask("deployments") for schedule in deployment["schedules"]]
    assert [schedule["anchor_date"] for schedule in schedules] == ["2020-01-01T00:00:00Z"]
    write(folder, own("nightly", every=7200, retries=0))
    assert deploy(folder)[:2] == (
        0,
        [
            "changed training/nightly: parameters, new schedule every 7200 s UTC (often), "
            "no schedule every 3600 s UTC (often)",
            "removed training/gone",
        ],
    )
    trigger = {"name": "data", "expect": ["tapeline.data-changed"]}
    write(folder, own("nightly", every=7200, retries=0) | {"triggers": [trigger]})
    [line] = deploy(folder)[1]
    assert re.fullmatch(r"changed training/nightly: new trigger data \(\w{7}\)", line)
    assert deploy(folder)[1] == ["nothing changed"]
    write(folder, own("nightly", retries=0))
    assert deploy(folder)[1] == [
        line.replace("new", "no"),
        "removed every 7200 s UTC (often) of training/nightly",
    ]
    queued = own("nightly", retries=0)
    queued["work_pool"] |= {"work_queue_name": "urgent"}
    write(folder, queued | {"enforce_parameter_schema": False})
    assert deploy(folder)[1] == ["changed training/nightly: work_queue_name, enforce_parameter_schema"]
    found = {d["name"]: d for d in ask("deployments") if d["name"] in ("nightly", "gone")}
    assert found["nightly"]["work_queue_name"] == "urgent"
    assert list(found) == ["nightly"]
    assert found["nightly"]["schedules"] == []
    assert found["nightly"]["global_concurrency_limit"]["limit"] == 1
    form = found["nightly"]["parameter_openapi_schema"]["properties"]
    assert form["retries"] | {"minimum": 0, "maximum": 10, "type": "integer"} == form["retries"]
    assert all(form[name].get("description") for name in form)


@pytest.mark.long
@pytest.mark.parametrize("by", ["deploy", "serve"])
def test_what_somebody_has_paused_on_the_server_stays_so(checkout, deploy, serve, ask, api, until, by):
    """`serve` began it again, also where its runner was started again by itself, and `deploy` some of it."""
    folder, name = checkout(), f"paused by hand, {by}"
    trigger = {"name": f"data for {by}", "expect": ["tapeline.data-changed"]}
    write(folder, entry(name, every=3600) | {"triggers": [trigger]})

    def found():
        [deployment] = ask("deployments", {"deployments": {"name": {"any_": [name]}}})
        [schedule] = deployment["schedules"]
        [automation] = ask("automations", {"automations": {"name": {"any_": [trigger["name"]]}}})
        return deployment, schedule, automation

    def brought():
        if by == "deploy":
            return deploy(folder)[1]
        process = serve(folder)
        log = folder / "serve.log"
        until(lambda: log.exists() and re.search("created training|stays off|changed training", log.read_text()))
        process.terminate()
        process.wait(timeout=60)
        lines = log.read_text().splitlines()
        log.unlink()
        return lines

    brought()
    deployment, schedule, automation = found()
    api("POST", f"/deployments/{deployment['id']}/pause_deployment")
    api("PATCH", f"/deployments/{deployment['id']}/schedules/{schedule['id']}", {"active": False})
    api("PATCH", f"/automations/{automation['id']}", {"enabled": False})
    lines = brought()
    deployment, schedule, automation = found()
    assert (deployment["paused"], schedule["active"], automation["enabled"]) == (True, False, False)
    stays = "stays off, as it is on the server"
    assert [line for line in lines if "stays" in line] == [
        f"training/{name} stays paused, as it is on the server",
        f"every 3600 s UTC (often) of training/{name} {stays}",
        f"trigger {trigger['name']} of training/{name} {stays}",
    ]
    write(folder, entry(name, every=3600) | {"paused": False, "triggers": [trigger | {"enabled": True}]})
    brought()
    deployment, _, automation = found()
    assert (deployment["paused"], automation["enabled"]) == (False, True), "the file says so"


@pytest.mark.long
@pytest.mark.parametrize("by", ["deploy", "serve"])
def test_what_is_paused_stays_so_where_a_signal_ends_its_update(checkout, serve, server, api, until, by):
    folder = checkout()
    names = [f"{number}, ended, {by}" for number in range(10)]
    write(folder, *(entry(name, every=3600) for name in names))
    flow = api("POST", "/flows/", {"name": "training"})["id"]
    about = {"name": names[0], "flow_id": flow, "entrypoint": "flows/training.py:training", "path": str(folder)}
    made = api("POST", "/deployments/", about | {"paused": True})["id"]
    process = (
        serve(folder)
        if by == "serve"
        else subprocess.Popen([sys.executable, "-m", "flows.deploy"], cwd=folder, env=environment(server))
    )
    until(lambda: not api("GET", f"/deployments/{made}")["paused"], limit=200)
    process.terminate()
    process.wait(timeout=120)
    assert api("GET", f"/deployments/{made}")["paused"]
    assert len(api("POST", "/deployments/filter", {})) < len(names), "it was at work"


@pytest.mark.long
def test_a_work_pool_that_projects_share_is_told(checkout, deploy, tmp_path):
    """A worker takes all that is in its pool: runs of a project that its machine lacked crashed."""
    first, second = checkout(), tmp_path / "second"
    shutil.copytree(first, second, symlinks=True)
    write(first, entry("shares one", pool="shared"))
    write(second, entry("shares another", pool="shared"))
    assert deploy(first)[1] == ["created work pool shared", "created training/shares one"]
    created, note = deploy(second)[1]
    assert created == "created training/shares another"
    assert note.startswith(f"note: the work pool shared has deployments of {first}, too: a worker that lacks one of")


@pytest.mark.long
def test_the_deploy_command_takes_over_no_deployment_of_another_project(checkout, deploy, ask, tmp_path):
    folder, other = checkout(), tmp_path / "other"
    (folder / "own.py").write_text("from prefect import flow\n\n\n@flow(name='mine')\ndef train(): ...\n")
    write(folder, entry("here"), entry("own") | {"entrypoint": "own.py:train", "parameters": {}})
    shutil.copytree(folder, other, symlinks=True)
    assert deploy(folder)[0] == 0
    before = {deployment["id"]: deployment["pull_steps"] for deployment in ask("deployments")}
    refused = f"is on this server for {folder}: rename this one in prefect.yaml, or delete that one on the server"
    assert deploy(other) == (2, [], f"deploy: training/here {refused}\n")
    write(other, entry("own") | {"entrypoint": "own.py:train", "parameters": {}})
    assert deploy(other) == (2, [], f"deploy: mine/own {refused}\n")
    assert {deployment["id"]: deployment["pull_steps"] for deployment in ask("deployments")} == before


@pytest.mark.slow
def test_a_schedule_trains_once_and_then_finds_nothing_new(checkout, serve, runs, until):
    folder = checkout()
    write(folder, entry("twice", every=4, isolated=True))
    process = serve(folder)
    until(lambda: len(runs("twice", "COMPLETED")) >= 3, limit=200)
    names = [run["state_name"] for run in sorted(runs("twice", "COMPLETED"), key=lambda run: run["start_time"])]
    assert names[0] == "Completed"
    assert set(names[1:]) == {"nothing new"}
    assert runs("twice", "FAILED", "CRASHED") == []
    process.terminate()
    assert process.wait(timeout=120) == 0
    left = subprocess.run(["git", "worktree", "list"], cwd=folder, capture_output=True, text=True, check=True).stdout
    assert len(left.splitlines()) == 1


@pytest.fixture
def run_of(server, runs, until):
    """Start a run of a deployment on the server, and return it when it has ended."""

    def ended(name):
        with temporary_settings({PREFECT_API_URL: server}), get_client(sync_client=True) as client:
            identity = client.read_deployment_by_name(f"training/{name}").id
            begun = str(client.create_flow_run_from_deployment(identity).id)
        over = ("COMPLETED", "FAILED", "CRASHED")
        return until(lambda: next((run for run in runs(name, *over) if run["id"] == begun), None), limit=200)

    return ended


@pytest.mark.long
@pytest.mark.slow
def test_a_copy_of_a_project_does_not_take_its_deployment(checkout, serve, ask, until, tmp_path):
    """Prefect copied the first folder over the other, `.git` included, at the first run."""
    first, copy = checkout(), tmp_path / "copy"
    write(first, entry("copied"))
    process = serve(first)
    until(lambda: ask("deployments"), limit=200)
    process.terminate()
    process.wait(timeout=120)
    shutil.copytree(first, copy, symlinks=True)
    assert serve(copy).wait(timeout=200) == 2
    lines = (copy / "serve.log").read_text().splitlines()
    assert lines[-2] == (
        f"runner: training/copied is on this server for {first}: rename this one in prefect.yaml, or delete "
        "that one on the server"
    )
    [deployment] = ask("deployments")
    assert deployment["path"] == str(first)


@pytest.mark.long
def test_a_project_that_has_moved_is_served_where_it_is(checkout, serve, server, ask, run_of, until, tmp_path):
    """Also where the server has the folder as earlier versions sent it, which was copied over the working directory."""
    first, other = checkout(), tmp_path / "moved"
    write(first, entry("moves"))
    process = serve(first)
    until(lambda: ask("deployments"), limit=200)
    process.terminate()
    process.wait(timeout=120)
    with temporary_settings({PREFECT_API_URL: server}), get_client(sync_client=True) as client:
        [deployment] = client.read_deployments()
        client.update_deployment(deployment.id, DeploymentUpdate(path=str(first), pull_steps=None))
    first.rename(other)
    first.mkdir()
    (first / "behaviour").write_text("of another project")
    serve(other)
    until(lambda: ask("deployments")[0]["path"] == str(other), limit=200)
    assert run_of("moves")["state_type"] == "COMPLETED"
    assert (other / "models/tiny/model.json").exists()
    assert (other / "behaviour").read_text() == "well"


@pytest.mark.long
def test_what_a_worker_has_run_is_served(checkout, deploy, serve, ask, run_of, until):
    folder = checkout()
    write(folder, entry("both"), entry("gone"))
    deploy(folder)
    write(folder, entry("both"))
    serve(folder)
    until(lambda: len(ask("deployments")) == 1, limit=200)
    assert run_of("both")["state_type"] == "COMPLETED"
    [deployment] = ask("deployments")
    assert (deployment["name"], deployment["work_pool_name"]) == ("both", None)


@pytest.mark.long
def test_schedules_stay_when_serving_stops_and_late_runs_become_one(checkout, serve, runs, ask, until):
    folder = checkout()
    write(folder, entry("late", every=5, isolated=True))
    process = serve(folder)
    until(lambda: runs("late", "COMPLETED"), limit=200)
    process.terminate()
    process.wait(timeout=120)
    [deployment] = [d for d in ask("deployments") if d["name"] == "late"]
    assert not deployment["paused"]
    assert [schedule["active"] for schedule in deployment["schedules"]] == [True]
    done = len(runs("late", "COMPLETED"))

    def late():
        return [run for run in runs("late", "SCHEDULED") if run["expected_start_time"] < now()]

    until(lambda: len(late()) >= 4, limit=200)
    missed = {run["id"] for run in late()}
    serve(folder)
    until(lambda: len(runs("late", "COMPLETED")) > done, limit=400)
    until(lambda: missed & {run["id"] for run in late()} == set(), limit=200)
    states = [run["state_type"] for run in runs("late") if run["id"] in missed]
    assert states.count("CANCELLED") >= 2, states
    assert set(states) <= {"CANCELLED", "COMPLETED"}


@pytest.mark.long
def test_late_runs_of_another_flow_become_one_too(checkout, serve, runs, until, monkeypatch):
    """Each of them ran, several at once, and most failed since another one was writing the same file."""
    monkeypatch.setenv("PREFECT_RUNNER_PROCESS_LIMIT", "1")
    folder = checkout()
    late = entry("late-answers", every=5) | {"entrypoint": "flows/inference.py:inference", "concurrency_limit": None}
    write(folder, late | {"parameters": {"model": "none", "files": ["x.csv"], "out": "y.csv"}})
    process = serve(folder)
    until(lambda: runs("late-answers"), limit=200)
    process.terminate()
    process.wait(timeout=120)

    def missed():
        return {run["id"] for run in runs("late-answers", "SCHEDULED") if run["expected_start_time"] < now()}

    until(lambda: len(missed()) >= 4, limit=200)
    late_ones = missed()
    serve(folder)
    until(lambda: not late_ones & missed(), limit=200)
    states = [run["state_type"] for run in runs("late-answers") if run["id"] in late_ones]
    assert states.count("CANCELLED") >= len(states) - 1, states


def now():
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())


@pytest.mark.long
def test_a_run_that_died_with_everything_does_not_block_the_next(checkout, serve, runs, until):
    folder = checkout("waits")
    write(folder, entry("dead", every=5, isolated=True))
    process = serve(folder)
    until((folder / ".tapeline/checkpoints/tiny/waiting").exists, limit=200)
    [run] = runs("dead", "RUNNING")
    family = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    for child in family:
        with suppress(psutil.Error):  # some of them end with the one that was killed
            if "tapeline.orchestration.schedules.runner" in child.cmdline() or "prefect" in " ".join(child.cmdline()):
                child.kill()
    process.wait()
    serve(folder)
    until(lambda: run["id"] in {found["id"] for found in runs("dead", "CRASHED")}, limit=200)
    until(lambda: runs("dead", "COMPLETED"), limit=200)
    assert "resuming from step 17" in (folder / "serve.log").read_text()


DELETES = """
    import httpx
    path = f"{os.environ['PREFECT_API_URL']}/flow_runs/"
    wanted = {"deployments": {"name": {"any_": ["deleted"]}}}
    [run] = httpx.post(f"{path}filter", json=wanted, trust_env=False).json()
    httpx.delete(path + run["id"], trust_env=False).raise_for_status()
"""


@pytest.mark.long
def test_a_run_that_is_deleted_on_the_server_is_one_line(checkout, serve, server, ask, until):
    """It was a traceback, after a training to the end."""
    folder = checkout()
    stage = folder / "stage.py"
    written = '    write(project.model(name) / "model.json", "{}")\n'
    stage.write_text(stage.read_text().replace(written, written + DELETES))
    write(folder, entry("deleted"))
    serve(folder)
    [deployment] = until(lambda: ask("deployments"), limit=200)
    with temporary_settings({PREFECT_API_URL: server}), get_client(sync_client=True) as client:
        run = client.create_flow_run_from_deployment(deployment["id"])
    until(lambda: f"Execution of flow run '{run.id}' aborted" in (folder / "serve.log").read_text(), limit=200)
    assert (folder / "models/tiny/model.json").exists()
    assert "Traceback" not in (folder / "serve.log").read_text()


@pytest.mark.slow
def test_a_run_that_fails_is_no_unexpected_exception(checkout, serve, ask, run_of, until):
    """Prefect's engine put a traceback of fifty lines behind the reason, in the UI too."""
    folder = checkout("refuses")
    write(folder, entry("refused"))
    serve(folder)
    until(lambda: ask("deployments"), limit=200)
    assert run_of("refused")["state_type"] == "FAILED"
    until(lambda: not [*(folder / ".tapeline/flow-runs").iterdir()])  # its process ends
    said = (folder / "serve.log").read_text()
    assert "Failed('the batch is larger than the data: make it smaller')" in said
    assert "Traceback" not in said and "unexpected" not in said


@pytest.mark.slow
def test_serving_that_ends_lets_its_runs_say_how_they_ended(checkout, serve, runs, until):
    """Prefect's runner kills them at once: they stayed Running, and left their worktrees."""
    folder = checkout("waits")
    write(folder, entry("ended", every=5, isolated=True))
    process = serve(folder)
    until((folder / ".tapeline/checkpoints/tiny/waiting").exists, limit=200)
    [run] = runs("ended", "RUNNING")
    process.terminate()
    assert process.wait(timeout=120) == 0
    assert run["id"] in {found["id"] for found in runs("ended", "CRASHED")}
    assert not list((folder / ".tapeline/worktrees").glob(run["name"]))
    assert "was never awaited" not in (folder / "serve.log").read_text()


@pytest.mark.long
def test_a_run_that_never_begins_is_marked_by_our_own_clock(checkout, deploy, server, monkeypatch):
    """However old the server says it is: a server that hung tells whoever is to start it late, too."""
    folder = checkout()
    write(folder, entry("never"))
    deploy(folder)
    monkeypatch.setattr(dead_runs, "STARTING", 0.5)
    with temporary_settings({PREFECT_API_URL: server}), get_client(sync_client=True) as client:
        deployment = client.read_deployment_by_name("training/never")
        run = client.create_flow_run_from_deployment(deployment.id)
        client.set_flow_run_state(run.id, Pending(timestamp=datetime.now(UTC) - timedelta(hours=1)), force=True)
        dead = dead_runs.DeadRuns(Project.find(folder))
        assert list(dead.mark(client)) == []
        time.sleep(0.6)
        importing = [sys.executable, "-c", "input()"]
        with subprocess.Popen(importing, stdin=subprocess.PIPE, env={liveness.STARTED_FOR: str(run.id)}) as process:
            assert list(dead.mark(client)) == [], "it was called crashed while it started, and trained all the same"
            process.communicate(b"\n")
        assert list(dead.mark(client)) == [f"run {run.name}: it never started: marked crashed"]
        assert client.read_flow_run(run.id).state_type == StateType.CRASHED


@pytest.mark.long
def test_its_own_server_and_its_runner_are_started_again(checkout, serve, with_database, until):
    folder = checkout()
    with_database(folder)
    write(folder, entry("own"))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = serve(folder, "--port", str(port), own=True)

    def names():
        try:
            auth = tuple((folder / ".tapeline/prefect/auth").read_text().strip().split(":"))
            url = f"http://127.0.0.1:{port}/api/deployments/filter"
            answer = httpx.post(url, json={}, auth=auth, trust_env=False)
            return [deployment["name"] for deployment in answer.json()]
        except (httpx.HTTPError, FileNotFoundError):
            return []

    def child(word):
        return next((c for c in started_by(process.pid) if word in c.cmdline()), None)

    until(lambda: names() == ["own"], limit=200)
    for word in ("uvicorn", "tapeline.orchestration.schedules.runner"):
        first = until(lambda word=word: child(word))
        first.kill()
        until(lambda word=word, first=first: (now := child(word)) and now.pid != first.pid, limit=200)
        until(lambda: names() == ["own"], limit=200)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=120) == 0
    assert below(folder) == []


@pytest.mark.slow
def test_a_runner_shares_no_folder_with_other_users(checkout, serve, tmp_path, until, monkeypatch):
    """Prefect's own was `runner_storage` in the temporary folder, of the first user who served anything."""
    (tmp_path / "runner_storage").touch()
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    folder = checkout()
    write(folder, entry("shared"))
    serve(folder)
    until(lambda: list(tmp_path.glob("tapeline-runner-*")), limit=120)
    assert "Traceback" not in (folder / "serve.log").read_text()


@pytest.mark.slow
def test_changed_data_are_trained_without_a_schedule(checkout, serve, runs, until):
    folder = checkout()
    resource = {"prefect.resource.id": "tapeline.dataset.points", "tapeline.project": folder.name}
    trigger = {"expect": ["tapeline.data-changed"], "match": resource}
    other = {**trigger, "match": {**resource, "tapeline.project": "another"}}
    write(
        folder,
        entry("new-data", isolated=True) | {"triggers": [trigger]},
        entry("another's data", isolated=True) | {"triggers": [other]},
    )
    serve(folder)
    until((folder / ".tapeline/data-seen/@main/points").exists, limit=200)
    until(lambda: "created training/new-data" in (folder / "serve.log").read_text(), limit=200)  # with its trigger
    (folder / "note.txt").write_text("no data")
    commit(folder, "no data")
    (folder / "points.csv").write_text("a\n1\n2\n3\n4\n")
    commit(folder, "more data")
    [run] = until(lambda: runs("new-data", "COMPLETED"), limit=200)
    assert run["created_by"]["type"] == "AUTOMATION"
    log = (folder / "serve.log").read_text()
    assert log.count("the data of points has changed on main") == 1
    assert runs("another's data") == []


@pytest.mark.slow
def test_a_trigger_that_prefect_does_not_know_ends_serving_with_one_line(checkout, serve):
    folder = checkout()
    write(folder, entry("wrong") | {"triggers": [{"posture": "Sometimes"}]})
    assert serve(folder).wait(timeout=200) == 2
    lines = (folder / "serve.log").read_text().splitlines()
    assert lines[-1] == "serve: cannot serve prefect.yaml: the reason is above"
    assert lines[-2].startswith("runner: prefect.yaml: triggers of wrong: posture: ")


@pytest.mark.slow
def test_parameters_that_the_flow_does_not_take_end_serving_and_deploying_with_one_line(checkout, serve, deploy):
    folder = checkout()
    write(folder, entry("wrong", retries="many"))
    line = "prefect.yaml: training/wrong: parameters.retries: 'many' is not of type 'integer'"
    status, _, said = deploy(folder)
    assert (status, said) == (2, f"deploy: {line}\n")
    assert serve(folder).wait(timeout=200) == 2
    lines = (folder / "serve.log").read_text().splitlines()
    assert lines[-2:] == [f"runner: {line}", "serve: cannot serve prefect.yaml: the reason is above"]


@pytest.mark.slow
def test_a_worker_without_deployments_is_one_line(checkout, serve):
    folder = checkout()
    write(folder)
    assert serve(folder, "--worker").wait(timeout=200) == 2
    said = "serve: prefect.yaml has no deployments, so a worker has nothing to run: add one"
    assert (folder / "serve.log").read_text().splitlines()[-1] == said


@pytest.mark.slow
def test_a_worker_runs_what_is_due_and_is_started_again(checkout, serve, runs, until):
    folder = checkout()
    write(folder, entry("by-worker", every=10, isolated=True) | {"work_pool": {"name": "by-worker"}})
    process = serve(folder, "--worker")
    until(lambda: runs("by-worker", "COMPLETED"), limit=200)
    done = len(runs("by-worker", "COMPLETED"))
    for child in started_by(process.pid):
        child.kill()
    until(lambda: len(runs("by-worker", "COMPLETED")) > done, limit=200)
    assert runs("by-worker", "FAILED") == []
    assert "the runner ended with status -9; restarting it" in (folder / "serve.log").read_text()
