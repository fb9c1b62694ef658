"""A served flow that is cancelled through Prefect's API at any moment: all is gone in 20 s, the next run goes on.

    TAPELINE_CANCELS=20 pytest -s -m slow tests/e2e/test_cancels.py

prints what was cancelled at which stage, and how long it took until nothing was left.
"""

import itertools
import os
import random
import shutil
import subprocess
import sys
import time
from collections import Counter

import httpx
import psutil
import pytest
import servers
from clones import BIN, ROOT, call, cloned, environment, sums
from surroundings import locks_are_free, running_stage, wait_for_none
from waiting import until

CANCELS = int(os.environ.get("TAPELINE_CANCELS", "3"))
PIPELINE = "linear-regression"
IN_A_ROW = 4
"""So many cancels before a run is left to finish."""

SERVE = (
    f"from flows.training import training; training.serve(name='cancelled', parameters={{'pipeline': '{PIPELINE}'}})"
)


@pytest.fixture
def api(tmp_path):
    """Call a running server: `api("POST", "/flow_runs/filter", {...})`."""
    (tmp_path / "home").mkdir()
    with servers.running(tmp_path / "home") as client:

        def up():
            try:
                return client.get("/health").is_success
            except httpx.TransportError:
                return False

        until(up, limit=200)

        def call_api(method, path, content=None):
            return client.request(method, path, json=content).raise_for_status().json()

        call_api.url = str(client.base_url)
        yield call_api


@pytest.fixture
def serving(api):
    """Serve the flow of a clone as a process of its own."""
    started = []

    def popen(folder):
        settings = {"PREFECT_API_URL": api.url, "PREFECT_RUNNER_POLL_FREQUENCY": "1"}
        process = subprocess.Popen(
            [sys.executable, "-c", SERVE],
            cwd=folder,
            env={**environment(), **settings},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield popen
    for process in started:
        process.terminate()
        process.wait(timeout=120)


def own(runner):
    """Return the runner and what it needs for itself: they stay."""
    helpers = [child for child in psutil.Process(runner.pid).children() if "resource_tracker" in str(child.cmdline())]
    return {runner.pid, *(child.pid for child in helpers)}


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(7200)
def test_twenty_at_any_moment(api, serving, tmp_path):
    undisturbed = cloned(ROOT, tmp_path / "undisturbed" / "tapeline")
    began = time.monotonic()
    call(undisturbed, BIN / "dvc", "repro", f"export@{PIPELINE}")
    seconds = time.monotonic() - began
    lock, made = (undisturbed / "dvc.lock").read_bytes(), sums(undisturbed)

    chance = random.Random(int(os.environ.get("TAPELINE_CANCELS_SEED", "1")))
    cancelled, slowest, number = Counter(), 0.0, 0
    for build in itertools.count():
        if number == CANCELS:
            break
        folder = cloned(ROOT, tmp_path / str(build) / "tapeline")
        runner = serving(folder)
        known = {"deployments": {"name": {"any_": ["cancelled"]}}}
        [deployment] = until(lambda known=known: api("POST", "/deployments/filter", known), limit=200)

        def start(deployment=deployment):
            path = f"/deployments/{deployment['id']}/create_flow_run"
            return f"/flow_runs/{api('POST', path, {'state': {'type': 'SCHEDULED'}})['id']}"

        for _ in range(min(IN_A_ROW, CANCELS - number)):
            run = start()
            until(lambda run=run: api("GET", run)["state_type"] not in ("SCHEDULED", "PENDING"), limit=200)
            time.sleep(chance.uniform(0, seconds * 1.3))
            if api("GET", run)["state_type"] != "RUNNING":
                break
            at = running_stage(folder)
            asked = time.monotonic()
            api("POST", f"{run}/set_state", {"state": {"type": "CANCELLING"}})
            until(lambda run=run: api("GET", run)["state_type"] in ("CANCELLED", "COMPLETED"), limit=200)
            wait_for_none(folder, but=own(runner))
            slowest = max(slowest, time.monotonic() - asked)
            assert locks_are_free(folder)
            cancelled[f"{api('GET', run)['state_type']} at {at}"] += 1
            number += 1
        run = start()
        until(lambda run=run: api("GET", run)["state_type"] in ("COMPLETED", "FAILED", "CRASHED"), limit=240)
        assert api("GET", run)["state_type"] == "COMPLETED", api("GET", run)["state"]
        runner.terminate()
        runner.wait(timeout=40)
        assert (folder / "dvc.lock").read_bytes() == lock
        assert sums(folder) == made
        wait_for_none(folder)
        assert not list((folder / ".tapeline" / "checkpoints").rglob("step-*"))
        shutil.rmtree(folder)
        assert slowest < 60, "a hang limit; what it took is printed"
    print(f"{number} cancels: {dict(sorted(cancelled.items()))}; the slowest was gone after {slowest:.1f} s")
