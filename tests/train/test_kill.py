"""One real SIGKILL per recipe: what the next process finishes has the bytes of a run that nobody killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from pipelines import ONE_PER_RECIPE, PIPELINES, STEPS_PER_EPOCH, stand_in, without_models
from ruamel.yaml import YAML
from trainings import outs

ROOT = Path(__file__).resolve().parents[2]


def project(folder, name, **settings):
    """Write a project folder with one pipeline, on stand-in data, saving a checkpoint at each step."""
    home, entry = PIPELINES[name]
    params = YAML(typ="safe").load((home / "params.yaml").read_text())
    batch = min(entry["train"]["batch_size"], 16)
    train = {**entry["train"], "epochs": 30, "batch_size": batch, "checkpoint": {"every_steps": 1}}
    train["validate_every"] = 10
    if "steps_per_epoch" in train:
        train["steps_per_epoch"] = STEPS_PER_EPOCH
    train |= settings
    if "shards" in train:
        train["shards"] = min(train["shards"], batch)
    recipe = str((home / entry["recipe"]).resolve())
    entry = {**entry, "recipe": recipe, "needs": recipe, "params": without_models(entry["params"]), "train": train}
    dataset = entry["dataset"]
    datasets = {dataset: params["datasets"][dataset]}
    content = {"datasets": datasets, "pipelines": {name: entry}}
    folder.mkdir()
    with (folder / "params.yaml").open("w") as file:
        YAML().dump(content, file)
    stand_in(dataset, folder / "data" / dataset, batch)
    return folder


def start(folder, name, cores=None):
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores or before)  # which the process inherits
    try:
        return subprocess.Popen(
            [sys.executable, "-m", "tapeline", "train", name],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            stderr=subprocess.PIPE,
            text=True,
        )
    finally:
        os.sched_setaffinity(0, before)


WHOLE, SHARDED = ("digits-multi", "cartpole-reinforce"), ("digits", "sinusoid-maml")
"""What CI kills without shards, and with shards in graph mode. `make test-all` kills all, in all modes."""


@pytest.mark.in_ci(1)
@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in WHOLE else [pytest.mark.long]) for name in ONE_PER_RECIPE]
)
def test_sigkill_and_go_on(tmp_path, name):
    check_killed(tmp_path, name)


@pytest.mark.long
@pytest.mark.parametrize(
    ("mode", "name"),
    [
        pytest.param(mode, name, marks=() if mode == "graph" and name in SHARDED else pytest.mark.long)
        for mode in ("graph", "xla", "eager")
        for name in ONE_PER_RECIPE
    ],
)
def test_shards_that_are_killed_go_on_with_other_cores(tmp_path, tf, mode, name):
    check_killed_shards(tmp_path, name, mode)


@pytest.mark.slow
def test_so_they_do_in_eager_mode(tmp_path, tf):
    check_killed_shards(tmp_path, "linear-regression", "eager")


def check_killed_shards(tmp_path, name, mode):
    from tapeline.recipe import loading

    home, entry = PIPELINES[name]
    if mode not in loading.load((home / entry["recipe"]).resolve()).modes:
        pytest.skip(f"{name} has no mode {mode}")
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        pytest.skip("this machine has one core")
    settings = {"shards": 4, "compile": mode, "precision": "float32", "in_graph_epochs": 1}
    if mode == "eager":
        settings |= {"epochs": 12, "validate_every": 4}  # a step takes a hundred times as long
    check_killed(tmp_path, name, before={cores[0]}, after=set(cores[:2]), **settings)


def killed_with_a_checkpoint(tmp_path, name, cores, settings):
    """Return the folder of a run that was killed with a checkpoint; a disk may be so slow that it ends before."""
    for attempt in range(5):
        folder = project(tmp_path / f"cut {attempt}", name, **settings)
        process = start(folder, name, cores)
        end = time.monotonic() + 240
        while not any((folder / ".tapeline" / "checkpoints").glob("*/*/step-*")) and process.poll() is None:
            assert time.monotonic() < end
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        said = process.communicate()[1]
        if not (folder / "runs").exists():
            assert process.returncode == -signal.SIGKILL, said
            return folder
    raise AssertionError(f"{name} ends before its first checkpoint is on disk")


def check_killed(tmp_path, name, *, before=None, after=None, **settings):
    """Kill a run on the cores `before` and continue on `after`, on which a whole run has the same outputs."""
    whole = project(tmp_path / "whole", name, **settings)
    process = start(whole, name, after)
    said = process.communicate(timeout=400)[1]
    assert process.returncode == 0, said

    cut = killed_with_a_checkpoint(tmp_path, name, before, settings)
    process = start(cut, name, after)
    said = process.communicate(timeout=400)[1]
    assert process.returncode == 0, said
    assert "resuming from step " in said
    assert outs(cut, name) == outs(whole, name)
