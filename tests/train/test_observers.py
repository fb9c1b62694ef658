"""Observers are given to a run: they decide no byte, so no line of theirs makes a result stale."""

import ast
import json
import math
import shutil

import datasets
import pytest
import recipes
from disks import folders_of_one, in_a_group
from trainings import Run

from tapeline.config import engine_lock
from tapeline.orchestration.stages.progress_file import ProgressFile
from tapeline.runtime import closure
from tapeline.runtime.code import digest_of_modules
from tapeline.runtime.progress import Progress
from tapeline.runtime.records import LoopEnded, Validated
from tapeline.train.job import Job
from tapeline.train.observers.progress import reporting
from tapeline.train.observers.standard import standard
from tapeline.train.stage import train


def code(package):
    return digest_of_modules(closure.of_module("tapeline.train.stage", package), package)


def test_a_changed_line_of_an_observer_leaves_the_hash_of_train(root, tmp_path):
    package = shutil.copytree(root / "src/tapeline", tmp_path / "tapeline")
    before = code(package)
    assert before[:16] == engine_lock.current("train")
    observers = sorted((package / "train/observers").glob("*.py"))
    assert {"console", "tensorboard", "profiling", "pictures", "standard"} <= {path.stem for path in observers}
    for path in observers:
        path.write_text(path.read_text() + "\nCHANGED = 1\n")
    assert code(package) == before
    outputs = package / "train/outputs.py"  # the control: what writes outputs does count
    outputs.write_text(outputs.read_text() + "\nCHANGED = 1\n")
    assert code(package) != before


def test_training_imports_no_observer(root):
    for path in closure.of_module("tapeline.train.stage"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not [name for name in names if "observers" in name], path


@pytest.fixture
def run(tmp_path, tf):
    data = datasets.points(tmp_path / "points").folder
    return Run(tmp_path / "run", recipes.write(tmp_path), data, epochs=2, batch_size=8)


def job(run, name, **given):
    folder = run.folder / name
    return Job(
        recipe=run.recipe,
        params={},
        settings=run.settings,
        data=run.dataset,
        out=folder / "out",
        checkpoints=folder / "checkpoints",
        traces=folder / "traces",
        **given,
    )


def test_the_same_bytes_with_and_without_observers_and_notes_by_default(run, capsys):
    reports = []
    told = {}
    for name, given in (("plain", {}), ("watched", {"observers": standard(reports.append)})):
        train(job(run, name, **given))
        told[name] = capsys.readouterr().err
    outs = [
        {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        for folder in (run.folder / "plain/out", run.folder / "watched/out")
    ]
    assert outs[0] == outs[1] and len(outs[0]) >= 4
    assert "validation: loss" in told["watched"] and "validation" not in told["plain"]
    assert [record["event"] for record in reports][-1] in ("validated", "progress", "saved")
    assert json.dumps(reports)


def test_a_metric_that_is_not_finite_reaches_the_flow_as_null(tmp_path):
    """JSON has no NaN: the line would be dropped."""
    path = tmp_path / "train.jsonl"
    followed = ProgressFile(path)
    metrics = {"precision": math.nan, "loss": math.inf, "accuracy": 0.5}
    ended = LoopEnded(start=0, step=1, total=2, epoch=1, metrics=metrics, seconds=1.0, examples=8)
    with Progress(path) as report:
        for record in (ended, Validated(step=1, epoch=1, metrics=metrics, improved=False)):
            reporting(report)(record)
    told = list(followed.records())
    assert [record["event"] for record in told] == ["progress", "validated"]
    assert [record["metrics"] for record in told] == [{"precision": None, "loss": None, "accuracy": 0.5}] * 2


def test_every_folder_of_a_run_is_the_groups_where_the_umask_says_so(tmp_path, tf):
    data = datasets.points(tmp_path / "points").folder
    settings = {"epochs": 2, "batch_size": 8, "checkpoint": {"every_steps": 2}}
    with in_a_group(tmp_path / "shared"):
        run = Run(tmp_path / "shared", recipes.write(tmp_path), data, tensorboard=True, **settings)
        run(profile=(3, 5))
    made = {path.name for path in run.folder.rglob("*") if path.is_dir()}
    assert made >= {"out", "weights", "checkpoints", "traces", "tensorboard", "val", "plugins"}
    assert not folders_of_one(run.folder)


def test_without_observers_what_should_be_known_is_still_printed(run, capsys):
    import dataclasses

    settings = run.settings.model_copy(update={"skip": (3,), "batch_size": 9})
    train(dataclasses.replace(job(run, "plain"), settings=settings))
    said = capsys.readouterr().err.splitlines()
    assert said == [
        "each epoch drops 4 examples of its permutation, which do not fill a batch",
        "step 3 skipped: train.skip names it",
    ]
