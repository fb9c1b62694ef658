"""SIGKILL of the trainer in a scheduled run of the real pipeline: the retry goes on, and the bytes are the undisturbed ones."""

import sys

import httpx
import psutil
import pytest
from clones import ROOT, call, cloned
from ruamel.yaml import YAML
from servers import running
from serving import entry, started, write
from surroundings import below
from waiting import until

SETTINGS = {"train.epochs": 60, "train.checkpoint.every_steps": 50}
"""Others than the recorded ones, so that there is something to train."""


@pytest.fixture
def checkout(tmp_path):
    def make(name):
        folder = cloned(ROOT, tmp_path / name)
        call(folder, "git", "checkout", "-q", "-B", "main")
        call(folder, "git", "add", "-A")
        who = ("-c", "user.name=t", "-c", "user.email=t@example.org")
        call(folder, "git", *who, "commit", "-q", "--allow-empty", "-m", "as it is")
        return folder

    return make


def answers(client):
    try:
        return client.get("/health").is_success
    except httpx.HTTPError:
        return False


def recorded(folder):
    """The outs of the one isolated run by their paths, and its branch."""
    [branch] = call(folder, "git", "branch", "--list", "runs/*", "--format=%(refname:short)").stdout.splitlines()
    stages = YAML(typ="safe").load(call(folder, "git", "show", f"{branch}:dvc.lock").stdout)["stages"]
    mine = {name: stage for name, stage in stages.items() if name.endswith("@digits")}
    return branch, {out["path"]: out["md5"] for stage in mine.values() for out in stage["outs"]}


def trainer(folder):
    """The process that trains, once it has a checkpoint to go on from."""
    if "checkpoint at step 200" not in (folder / "serve.log").read_text():
        return None
    for process in below(folder):
        command = " ".join(process.cmdline())
        if "tapeline train digits" in command and process.status() != psutil.STATUS_ZOMBIE:
            return process
    return None


@pytest.mark.slow
@pytest.mark.long
def test_the_retry_of_a_scheduled_run_makes_the_same_bytes(checkout, tmp_path):
    undisturbed = checkout("undisturbed")
    options = [part for key, value in SETTINGS.items() for part in ("--set", f"{key}={value}")]
    flow = [sys.executable, "-m", "flows.training", "--pipeline", "digits", "--isolated"]
    call(undisturbed, *flow, *options, timeout=400)
    killed = checkout("killed")
    write(killed, entry("often", every=60, pipeline="digits", isolated=True, overrides=SETTINGS))
    (tmp_path / "server").mkdir()
    with running(tmp_path / "server") as client:
        until(lambda: answers(client), limit=200)
        process = started(killed, server=str(client.base_url).rstrip("/"))
        try:
            until(lambda: trainer(killed), limit=200).kill()

            def pages():
                wanted = {"artifacts": {"key": {"any_": ["training-digits"]}}}
                return client.post("/artifacts/filter", json=wanted).raise_for_status().json()

            [page] = until(pages, limit=300)
        finally:
            process.terminate()
            process.wait(timeout=120)
    assert "| train@digits | ran, attempt 2 |" in page["data"]
    log = (killed / "serve.log").read_text()
    assert "attempt 2 of 3" in log
    assert "resuming from step" in log
    assert recorded(killed)[1] == recorded(undisturbed)[1]
