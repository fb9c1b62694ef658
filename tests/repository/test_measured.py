"""`tapeline metrics`: each pipeline's own metrics, and none of the other pipelines' columns."""

import json

import pytest
from repositories import Repository

from tapeline.cli.main import main


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
    nothing = "nothing: it is not built, or its files are not here"
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
