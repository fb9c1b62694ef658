"""Signals to a real `tapeline train`: a checkpoint within seconds, whatever it is doing."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import datasets
import pytest
import recipes
from projects import write_params
from trainings import Run
from waiting import until

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 120

# A step that XLA compiles for seconds: a deep unrolled chain.
SLOW_TO_COMPILE = (
    (
        'self.model(batch["x"], training=training)',
        'deep(self.model(batch["x"], training=training))',
    ),
    (
        "class Line",
        "def deep(x):\n    for n in range(300):\n        x = tf.sin(x * (n + 1.5)) + tf.linalg.matmul(x, x, "
        "transpose_b=True)[:, :1] * 1e-9\n"
        "    return x\n\nclass Line",
    ),
)


@pytest.fixture
def project(tmp_path):
    """A project folder with a long pipeline; returns a function that starts `tapeline train long`."""
    datasets.points(tmp_path / "data" / "points", examples=64)

    started = []

    def start(*edits, **train):
        recipes.write(tmp_path, recipes.LINE, *edits)
        settings = {"epochs": 10**7, "batch_size": 8, "validate_every": 10**6, **train}
        write_params(tmp_path, **settings)
        process = subprocess.Popen(
            [sys.executable, "-m", "tapeline", "train", "long"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    start.folder = tmp_path
    yield start
    for process in started:
        process.kill()
        process.communicate()


def progress(folder, event):
    path = folder / ".tapeline" / "progress" / "train@long.jsonl"
    return path.exists() and f'"event": "{event}"' in path.read_text()


def outcome(folder):
    return json.loads((folder / ".tapeline" / "outcome" / "train@long.json").read_text())["outcome"]


def checkpoints(folder):
    return sorted((folder / ".tapeline" / "checkpoints").rglob("step-*"))


@pytest.mark.parametrize(
    ("signum", "status"), [(signal.SIGTERM, 143), pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("mode", ["graph", pytest.param("xla", marks=pytest.mark.slow)])
def test_a_signal_leaves_a_checkpoint(project, signum, status, mode):
    process = project(compile=mode)
    until(lambda: progress(project.folder, "progress"), limit=LIMIT, process=process)
    process.send_signal(signum)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == status, said
    (saved,) = checkpoints(project.folder)
    step = int(saved.name.removeprefix("step-"))
    assert (
        said.splitlines()[-1]
        == f"tapeline: stopped at step {step} of 80000000; its checkpoint is saved: run again to resume"
    )
    assert outcome(project.folder) == "interrupted"


@pytest.mark.slow
def test_a_signal_while_xla_compiles(project):
    """Python's handlers do not run then; the watcher saves the state of step 0 and leaves."""
    process = project(*SLOW_TO_COMPILE, compile="xla")
    until(lambda: progress(project.folder, "started"), limit=LIMIT, process=process)
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 143
    assert [path.name for path in checkpoints(project.folder)] == ["step-000000000000"]
    assert (
        said.splitlines()[-1] == "tapeline: stopped at step 0 of 80000000; its checkpoint is saved: run again to resume"
    )
    assert outcome(project.folder) == "interrupted"


@pytest.mark.long
def test_a_second_signal_ends_at_once(project):
    process = project(*SLOW_TO_COMPILE, compile="xla")
    until(lambda: progress(project.folder, "started"), limit=LIMIT, process=process)
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    assert process.returncode in (143, 130)
    assert said.splitlines()[-1].startswith("tapeline: stopped at once by SIG")


def test_a_signal_before_there_is_state(project):
    process = project()
    until((project.folder / ".tapeline" / "progress").exists, limit=LIMIT, process=process)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 143
    assert not checkpoints(project.folder)


WATCHED = """
import os, signal, sys, time
from tapeline.runtime.errors import Interrupted
from tapeline.train.engine.stopping import Stopper, leave_at_once

def save(number):
    SAVE
    return Interrupted("saved", signum=number)

signal.signal(signal.SIGCHLD, lambda *_: None)
with Stopper(ask=lambda: None, save=save, leave=leave_at_once, deadline=0.3):
    os.kill(os.getpid(), signal.SIGTERM)
    THEN
    time.sleep(60)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("save", "then", "said"),
    [
        ("pass", "pass", "saved"),
        ("pass", "os.kill(os.getpid(), signal.SIGCHLD)", "saved"),
        ("time.sleep(0.2)", "for _ in range(9): time.sleep(0.05); os.kill(os.getpid(), signal.SIGTERM)", "saved"),
        ("time.sleep(60)", "time.sleep(5); os.kill(os.getpid(), signal.SIGTERM)", "stopped at once by SIGTERM and then SIGTERM; the earlier checkpoints are intact"),
        ("time.sleep(60)", "time.sleep(0.6); os.kill(os.getpid(), signal.SIGINT)", "stopped at once by SIGTERM and then SIGINT; the earlier checkpoints are intact"),
        ("raise OSError(28, 'No space left')", "pass", "stopped, and its state could not be saved: [Errno 28] No space left; the earlier checkpoints are intact"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("heard", [True, False])
def test_whatever_happens_the_watcher_leaves(save, then, said, heard):
    """Another signal, an echo, a second one while it saves, a full disk; and nobody who hears what it says."""
    program = WATCHED.replace("SAVE", save).replace("THEN", then)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    process = subprocess.Popen([sys.executable, "-c", program], env=environment, stderr=subprocess.PIPE, text=True)
    if not heard:
        process.stderr.close()
        assert process.wait(30) == 143
        return
    assert process.communicate(timeout=30)[1] == f"tapeline: {said}\n"
    assert process.returncode == 143


def test_handlers_of_the_surrounding_program_are_put_back(tmp_path, tf):
    called = []
    before = signal.signal(signal.SIGTERM, lambda *_: called.append("mine"))
    try:
        Run(tmp_path, recipes.write(tmp_path), datasets.points(tmp_path / "p").folder, epochs=1, batch_size=8)()
        os.kill(os.getpid(), signal.SIGTERM)
        assert called == ["mine"]
        assert signal.set_wakeup_fd(-1) == -1
    finally:
        signal.signal(signal.SIGTERM, before)
