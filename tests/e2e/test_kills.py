"""SIGKILL of any process at any moment of the flow or of `dvc repro`: running again just finishes, with the same lock.

    TAPELINE_KILLS=50 pytest -s -m slow tests/e2e/test_kills.py
    TAPELINE_KILLS=100 TAPELINE_KILLED=flow pytest -s -m slow tests/e2e/test_kills.py    # the flow alone, with its forks

prints what was killed at which stage, and how long the last process of a killed run was left.
"""

import itertools
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter

import psutil
import pytest
from clones import BIN, ROOT, call, cloned, environment, sums
from surroundings import ORPHANS, below, locks_are_free, running_stage, wait_for_none

KILLS = int(os.environ.get("TAPELINE_KILLS", "4"))
PIPELINE = os.environ.get("TAPELINE_KILLED_PIPELINE", "linear-regression")
WHICH = os.environ.get("TAPELINE_KILLED", "flow dvc").split()
PATIENCE = 1200.0
"""Seconds that a run may take on a busy machine."""

IN_A_ROW = 2
"""So many kills before a build is left to finish."""

FLOW = [sys.executable, "-m", "flows.training", "--pipeline", PIPELINE]
BARE = [str(BIN / "dvc"), "repro", f"export@{PIPELINE}"]


def role(process):
    try:
        command = " ".join(process.cmdline())
    except psutil.Error:
        return "gone"
    roles = {
        "runtime.nursery": "nursery",
        "repository.reproduction": "dvc",
        "uvicorn": "server",
        "server": "server",
        "flows": "flow",
        "processes.py": "guard",
        "export/check.py": "check",
        "tapeline": "stage",
        "dvc": "dvc",
    }
    return next((name for part, name in roles.items() if part in command), "helper")


def started(command, folder):
    return subprocess.Popen(
        command,
        cwd=folder,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """A clone that nobody disturbed, and how long it took."""
    folder = cloned(ROOT, tmp_path_factory.mktemp("reference") / "tapeline")
    began = time.monotonic()
    call(folder, *BARE, timeout=PATIENCE)
    return folder, time.monotonic() - began


@pytest.mark.slow
@pytest.mark.timeout(14400)
def test_any_process_at_any_moment(reference, tmp_path):
    undisturbed, seconds = reference
    lock, made = (undisturbed / "dvc.lock").read_bytes(), sums(undisturbed)
    chance = random.Random(int(os.environ.get("TAPELINE_KILLS_SEED", "1")))
    killed, number, longest = Counter(), 0, 0.0
    for build in itertools.count():
        if number == KILLS:
            break
        folder = cloned(ROOT, tmp_path / str(build) / "tapeline")
        command = {"flow": FLOW, "dvc": BARE}[WHICH[build % len(WHICH)]]
        for _ in range(min(IN_A_ROW, KILLS - number)):
            running = started(command, folder)
            time.sleep(chance.uniform(0.3, seconds * (1.6 if command is FLOW else 1.0)))
            alive = below(folder)
            if not alive:
                running.wait(ORPHANS)
                break
            who = alive if chance.random() < 0.2 else [chance.choice(alive)]
            what = "all" if len(who) > 1 else role(who[0])
            killed[f"{'flow' if command is FLOW else 'dvc'}: {what} at {running_stage(folder)}"] += 1
            number += 1
            for process in who:
                try:
                    process.send_signal(signal.SIGKILL)
                except psutil.NoSuchProcess:
                    continue
            running.wait(PATIENCE)  # what is not killed itself lives on, to whatever end: the flow tries a stage again
            longest = max(longest, left := wait_for_none(folder))
            print(f"{number}: {what}, the last process gone after {left:.1f} s", flush=True)
        if command is BARE:
            call(folder, sys.executable, "-m", "tapeline", "repair")
        call(folder, *command, timeout=PATIENCE)
        wait_for_none(folder)
        assert (folder / "dvc.lock").read_bytes() == lock
        assert sums(folder) == made
        assert locks_are_free(folder)
        assert not list((folder / ".tapeline" / "checkpoints").rglob("step-*"))
        shutil.rmtree(folder)
    print(f"{number} kills, the last process gone after {longest:.1f} s at most: {dict(sorted(killed.items()))}")
