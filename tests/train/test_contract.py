"""The rule that every recipe keeps, in every mode that it supports: however a run is cut, its bits are the same."""

import ast
from pathlib import Path

import datasets
import numpy as np
import pytest
from ruamel.yaml import YAML
from training import Crash, Lengths, Run, crash_after

from tapeline.recipe_params import declared_params

ROOT = Path(__file__).resolve().parents[2]
STEPS_PER_EPOCH, EPOCHS = 4, 3


def pipelines():
    """Return (name, entry) of every pipeline of the project and its gallery."""
    found = {}
    for folder in (ROOT, ROOT / "gallery"):
        if (folder / "params.yaml").exists():
            entries = YAML(typ="safe").load((folder / "params.yaml").read_text())["pipelines"]
            found |= {name: (folder, entry) for name, entry in entries.items()}
    return found


PIPELINES = pipelines()


def modes(path: Path) -> dict[str, tuple[str, ...]]:
    """Return a recipe's modes from its source, so that collecting tests does not import TensorFlow."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "modes":
            return ast.literal_eval(node.value)
    precisions = ("float32", "mixed_bfloat16")
    return {"graph": precisions, "xla": precisions, "eager": precisions}


def stand_in(name: str, folder: Path, batch: int) -> Path:
    """Write a dataset of the same features as dataset `name`, of `STEPS_PER_EPOCH` batches and a rest."""
    random = np.random.default_rng(1)
    count = STEPS_PER_EPOCH * batch + 1
    images = {"digits": (8, 8, 1), "mnist": (28, 28, 1), "cifar10": (32, 32, 3)}
    if name in images:
        high = 17 if name == "digits" else 256

        def split(n):
            image = random.integers(0, high, (n, *images[name])).astype(np.uint8)
            return {"image": image, "label": random.integers(0, 10, n)}

        classes = {"label": [str(digit) for digit in range(10)]}
        return datasets.write(folder, {"train": split(count), "val": split(5), "test": split(5)}, classes).folder
    assert name == "line", f"give dataset {name} a stand-in here"
    return datasets.points(folder, examples=count).folder


def cases():
    for name, (folder, entry) in PIPELINES.items():
        for mode, precisions in modes(folder / entry["recipe"]).items():
            for precision in precisions:
                yield pytest.param(name, mode, precision, id=f"{name}-{mode}-{precision}")


@pytest.fixture
def run(tmp_path, tf):
    """Return a function that makes the run of a pipeline in a mode."""

    def make(name: str, mode: str, precision: str, label: str, **changes) -> Run:
        folder, entry = PIPELINES[name]
        settings = {k: v for k, v in entry["train"].items() if k not in ("epochs", "batch_size", "validate_every")}
        batch = min(entry["train"]["batch_size"], 8)
        data = tmp_path / entry["dataset"]
        if not data.exists():
            stand_in(entry["dataset"], data, batch)
        settings |= {"epochs": EPOCHS, "batch_size": batch, "compile": mode, "precision": precision, **changes}
        assert declared_params(folder / entry["recipe"]) is not None
        return Run(tmp_path / label, folder / entry["recipe"], data, entry["params"], **settings)

    return make


@pytest.mark.parametrize(("name", "mode", "precision"), list(cases()))
def test_restart_loop_lengths_and_streaming_change_no_bit(run, name, mode, precision):
    whole = run(name, mode, precision, "whole")(pace=Lengths(50)).outs()

    single = run(name, mode, precision, "single", data="stream")(pace=Lengths(1)).outs()
    assert single == {**single, **without_record(whole)}

    cut = run(name, mode, precision, "cut", checkpoint={"every_steps": 5})
    with pytest.raises(Crash):
        cut(hooks=[crash_after(5)], pace=Lengths(2, 3, 1))
    assert not cut.out.exists()
    cut(pace=Lengths(3, 1))
    assert cut.notes[0].startswith("going on from step ")
    assert cut.outs() == whole
    assert not cut.saved()


def without_record(outs):
    """Return the outs without `run.json`, which is compared where the settings are equal."""
    return {name: content for name, content in outs.items() if name != "run.json"}
