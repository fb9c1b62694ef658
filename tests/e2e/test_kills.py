"""SIGKILL of any process at any moment of the flow or of `dvc repro`: running again just finishes, with the same lock.

    TAPELINE_KILLS=50 pytest -s -m slow tests/e2e/test_kills.py

prints what was killed at which stage.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest
from clones import BIN, ROOT, call, cloned, environment, sums

KILLS = int(os.environ.get("TAPELINE_KILLS", "6"))
PIPELINE = os.environ.get("TAPELINE_KILLED_PIPELINE", "linear-regression")
IN_A_ROW = 3
"""So many kills before a build is left to finish."""
ORPHANS = 20.0
"""Seconds after which nothing of a killed run may be there."""

FLOW = [sys.executable, "-m", "flows.training", "--pipeline", PIPELINE]
BARE = [str(BIN / "dvc"), "repro", f"export@{PIPELINE}"]


def below(folder):
    """Return the processes that work in a folder: flow, server, DVC, stage."""
    found = []
    for process in psutil.process_iter():
        try:
            if Path(process.cwd()).is_relative_to(folder) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def role(process):
    try:
        command = " ".join(process.cmdline())
    except psutil.Error:
        return "gone"
    roles = {
        "uvicorn": "server",
        "server": "server",
        "flows": "flow",
        "export/check.py": "check",
        "tapeline": "stage",
        "dvc": "dvc",
    }
    return next((name for part, name in roles.items() if part in command), "helper")


def stage(folder):
    """Return the stage that runs now, by the newest progress file."""
    files = sorted((folder / ".tapeline" / "progress").glob("*.jsonl"), key=lambda path: path.stat().st_mtime)
    return files[-1].name.split("@")[0] if files else "start"


def started(command, folder):
    return subprocess.Popen(
        command,
        cwd=folder,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def wait_for_none(folder):
    end = time.monotonic() + ORPHANS
    while left := below(folder):
        assert time.monotonic() < end, [process.cmdline() for process in left]
        time.sleep(0.05)


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """A clone that nobody disturbed, and how long it took."""
    folder = cloned(ROOT, tmp_path_factory.mktemp("reference") / "tapeline")
    began = time.monotonic()
    call(folder, *BARE)
    return folder, time.monotonic() - began


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_any_process_at_any_moment(reference, tmp_path):
    undisturbed, seconds = reference
    lock, made = (undisturbed / "dvc.lock").read_bytes(), sums(undisturbed)
    chance = random.Random(int(os.environ.get("TAPELINE_KILLS_SEED", "1")))
    killed, number = Counter(), 0
    while number < KILLS:
        folder = cloned(ROOT, tmp_path / str(number) / "tapeline")
        command = FLOW if (number // IN_A_ROW) % 2 == 0 else BARE
        for _ in range(min(IN_A_ROW, KILLS - number)):
            running = started(command, folder)
            time.sleep(chance.uniform(0.3, seconds * (1.6 if command is FLOW else 1.0)))
            alive = below(folder)
            if not alive:
                running.wait(ORPHANS)
                break
            who = alive if chance.random() < 0.2 else [chance.choice(alive)]
            what = "all" if len(who) > 1 else role(who[0])
            killed[f"{'flow' if command is FLOW else 'dvc'}: {what} at {stage(folder)}"] += 1
            number += 1
            for process in who:
                try:
                    process.send_signal(signal.SIGKILL)
                except psutil.NoSuchProcess:
                    continue
            if what in ("server", "helper", "check"):  # the flow itself lives on, to whatever end
                running.wait(240)
            else:
                running.wait(ORPHANS)
            wait_for_none(folder)
        if command is BARE:
            call(folder, sys.executable, "-m", "tapeline", "repair")
        call(folder, *command)
        wait_for_none(folder)
        assert (folder / "dvc.lock").read_bytes() == lock
        assert sums(folder) == made
        rwlock = folder / ".dvc" / "tmp" / "rwlock"
        assert not rwlock.exists() or not any(json.loads(rwlock.read_text()).values())
        assert not list((folder / ".tapeline" / "checkpoints").rglob("step-*"))
    print(f"{number} kills: {dict(sorted(killed.items()))}")
