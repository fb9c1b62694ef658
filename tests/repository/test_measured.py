"""`tapeline metrics`: each pipeline's own metrics, and none of the other pipelines' columns."""

import json

import pytest
from repositories import Repository

from tapeline.cli.main import main
from tapeline.repository.measured import by_split

TRAINED = {"step": 3, "train": {"loss": 1.0}, "val": {"loss": 2.0, "drawn": 5.0}}
TESTED = {"loss": 3.0, "macro_f1": 0.5, "classes": {"cat": {"f1": 0.5}}}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    folder = Repository(tmp_path).folder
    monkeypatch.chdir(folder)
    return folder


def write(folder, stage, file, content):
    path = folder / "runs" / "one" / stage / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


def shown(capsys, *arguments):
    capsys.readouterr()
    status = main(["metrics", *arguments])
    told = capsys.readouterr()
    return status, told.out.splitlines(), told.err


def test_a_column_for_each_split(folder, capsys):
    write(folder, "train", "metrics.json", {"step": 9, "train": {"loss": 0.25}, "val": {"loss": 0.5, "exact": 1}})
    write(folder, "validate", "metrics.json", {"loss": 0.75, "accuracy": None, "classes": {"0": {"f1": 1.0}}})
    write(folder, "validate", "verdict.json", {"split": "held-out"})
    assert shown(capsys, "one") == (
        0,
        [
            "one",
            "metric  held-out  val  train",
            "loss        0.75  0.5   0.25",
            "exact               1",
        ],
        "",
    )


def test_all_pipelines_and_those_without_files(folder, capsys):
    write(folder, "train", "metrics.json", {"train": {"loss": 0.25}})
    nothing = "no metrics: it is not built, or its files are not here"
    status, lines, _ = shown(capsys)
    assert (status, lines) == (0, ["one", "metric  train", "loss     0.25", "", "two", nothing])


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("content", "message"), [("{", "is not a JSON"), ("[]", "is not a JSON object: not an object")]
)
def test_a_file_that_is_cut(folder, capsys, content, message):
    write(folder, "train", "metrics.json", content)
    status, lines, error = shown(capsys, "one")
    assert (status, lines) == (2, [])
    assert f"runs/one/train/metrics.json {message}" in error and len(error.splitlines()) == 1


def test_a_name_that_is_none(folder, capsys):
    status, lines, error = shown(capsys, "three")
    assert (status, lines) == (2, [])
    assert "three" in error


def test_the_splits_of_validate_and_train():
    assert by_split(tested=TESTED, trained=TRAINED, split="test") == {
        "loss": {"test": 3.0, "val": 2.0, "train": 1.0},
        "macro_f1": {"test": 0.5},
        "drawn": {"val": 5.0},
    }


@pytest.mark.parametrize(
    ("split", "loss"), [("val", {"val": 3.0, "train": 1.0}), ("train", {"train": 3.0, "val": 2.0})]
)
def test_a_split_that_training_measures_too_has_the_figures_of_the_verdict(split, loss):
    found = by_split(tested=TESTED, trained=TRAINED, split=split)
    assert found["loss"] == loss
    assert found["macro_f1"] == {split: 0.5}
    assert next(iter(found["loss"])) == split


def test_a_stage_without_files():
    assert by_split(tested=TESTED, trained={}, split="val") == {"loss": {"val": 3.0}, "macro_f1": {"val": 0.5}}
    assert by_split(tested={}, trained={"val": None}, split="test") == {}
