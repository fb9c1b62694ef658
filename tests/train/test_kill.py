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

ROOT = Path(__file__).resolve().parents[2]


def project(folder, name):
    """Write a project folder with one pipeline, on stand-in data, saving a checkpoint at each step."""
    home, entry = PIPELINES[name]
    params = YAML(typ="safe").load((home / "params.yaml").read_text())
    batch = min(entry["train"]["batch_size"], 16)
    train = {**entry["train"], "epochs": 60, "batch_size": batch, "checkpoint": {"every_steps": 1}}
    train["validate_every"] = 20
    if "steps_per_epoch" in train:
        train["steps_per_epoch"] = STEPS_PER_EPOCH
    recipe = str((home / entry["recipe"]).resolve())
    entry = {**entry, "recipe": recipe, "needs": recipe, "params": without_models(entry["params"]), "train": train}
    dataset = entry["dataset"]
    datasets = {dataset: params["datasets"][dataset]}
    content = {"environment": params["environment"], "datasets": datasets, "pipelines": {name: entry}}
    folder.mkdir()
    with (folder / "params.yaml").open("w") as file:
        YAML().dump(content, file)
    stand_in(dataset, folder / "data" / dataset, batch)
    return folder


def start(folder, name):
    return subprocess.Popen(
        [sys.executable, "-m", "tapeline", "train", name],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stderr=subprocess.PIPE,
        text=True,
    )


def outs(folder, name):
    return {p.name: p.read_bytes() for p in sorted((folder / "runs" / name / "train").rglob("*")) if p.is_file()}


@pytest.mark.slow
@pytest.mark.parametrize("name", ONE_PER_RECIPE)
def test_sigkill_and_go_on(tmp_path, name):
    whole = project(tmp_path / "whole", name)
    process = start(whole, name)
    said = process.communicate(timeout=400)[1]
    assert process.returncode == 0, said

    cut = project(tmp_path / "cut", name)
    process = start(cut, name)
    end = time.monotonic() + 120
    while not any((cut / ".tapeline" / "checkpoints").rglob("step-*")):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < end
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not (cut / "runs").exists()

    process = start(cut, name)
    said = process.communicate(timeout=400)[1]
    assert process.returncode == 0, said
    assert "resuming from step " in said
    assert outs(cut, name) == outs(whole, name)
