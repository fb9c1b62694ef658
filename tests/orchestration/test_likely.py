"""The guess whether a stage will run, and imports that begin before they are needed."""

import os
from pathlib import Path

import pytest

from tapeline.config.project import Project
from tapeline.orchestration.stages.likely import is_likely_stale, note_unchanged


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """Make a project in which everything was written before `dvc.lock`."""
    for name in ("models/tiny/model", "runs/tiny/train/weights", "runs/tiny/validate/verdict.json", "recipes/own.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    for name in ("params.yaml", "dvc.yaml", "engine.lock", "dvc.lock"):
        (tmp_path / name).touch()
    for path in tmp_path.rglob("*"):
        os.utime(path, (1_000, 1_000))
    os.utime(tmp_path / "dvc.lock", (2_000, 2_000))
    return tmp_path


def guess(folder: Path) -> bool:
    return is_likely_stale(Project(folder, folder, folder), "tiny")


def test_nothing_was_written_since(recorded: Path) -> None:
    assert not guess(recorded)


@pytest.mark.parametrize("name", ["params.yaml", "dvc.yaml", "engine.lock", "recipes/own.py"])
def test_a_file_that_was_written_since(recorded: Path, name: str) -> None:
    os.utime(recorded / name, (3_000, 3_000))
    assert guess(recorded)


@pytest.mark.parametrize("name", ["models/tiny", "runs/tiny/train", "runs/tiny/validate", "dvc.lock"])
def test_what_is_missing(recorded: Path, name: str) -> None:
    (recorded / name).rename(recorded / "gone")
    assert guess(recorded)


def test_what_git_has_just_written_is_guessed_stale_once(recorded: Path) -> None:
    project = Project(recorded, recorded, recorded)
    note_unchanged(project, "tiny")
    assert not (recorded / "unchanged").exists(), "there was nothing to correct"
    os.utime(recorded / "params.yaml", (3_000, 3_000))
    note_unchanged(project, "tiny")
    assert not guess(recorded)
    os.utime(recorded / "recipes/own.py", (5_000_000_000, 5_000_000_000))
    assert guess(recorded)
    (recorded / "dvc.lock").unlink()
    assert guess(recorded)
