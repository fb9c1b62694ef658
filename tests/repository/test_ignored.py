"""What stages make stays out of Git, whatever becomes of the command that ran them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tapeline.config.project import Project
from tapeline.repository.doctor import MISSING, examine
from tapeline.repository.ignored import ignore, lacking, outputs, with_lines


@pytest.fixture
def project(project):
    return Project.find(project)


def git(project, *arguments):
    return subprocess.run(
        ["git", *arguments], cwd=project.folder, check=True, capture_output=True, text=True
    ).stdout.splitlines()


def made(project, path, content="x"):
    (project.folder / path).parent.mkdir(parents=True, exist_ok=True)
    (project.folder / path).write_text(content)


def test_the_outputs_are_those_of_dvc_yaml(project):
    assert outputs(project, "ingest", "iris") == ["data/iris"]
    assert outputs(project, "export", "iris") == ["models/iris"]
    assert "runs/iris/train/weights" in outputs(project, "train", "iris")
    (project.folder / "dvc.yaml").write_text(
        "stages: {ingest: {do: {outs: [{'data/${key}': {cache: false}}, 'more/${key}']}}}"
    )
    assert outputs(project, "ingest", "iris") == ["more/iris"]
    (project.folder / "dvc.yaml").write_text("stages: [")
    assert outputs(project, "ingest", "iris") == []


def test_git_add_takes_no_output(project):
    made(project, "data/iris/train/x.npy")
    made(project, "data/.gitignore", "/other")  # without a last newline
    ignore(project, ["data/iris", "models/iris"])
    assert (project.folder / "data/.gitignore").read_text() == "/other\n/iris\n"
    assert not (project.folder / "models").exists()
    git(project, "add", ".")
    assert not [path for path in git(project, "ls-files") if path.startswith("data/iris")]
    ignore(project, ["data/iris"])
    assert (project.folder / "data/.gitignore").read_text() == "/other\n/iris\n"


def test_what_a_pattern_ignores_needs_no_line(project):
    (project.folder / ".gitignore").write_text("/data/?*\n!/data/raw/\n")
    made(project, "data/iris/train/x.npy")
    ignore(project, ["data/iris"])
    assert not (project.folder / "data/.gitignore").exists()


@pytest.mark.parametrize(
    ("text", "missing", "whole"),
    [
        ("", ["a", "*.b"], "a\n*.b\n"),
        ("# a\n!*.b\na/", ["*.b"], "# a\n!*.b\na/\n*.b\n"),
        ("*.b \r\na", [], "*.b \r\na"),
    ],
)
def test_the_patterns_that_an_ignore_file_lacks(text, missing, whole):
    assert lacking(text, ["a", "*.b"]) == missing
    assert with_lines(text, missing) == whole


def test_without_git_nothing_is_written(tmp_path):
    (tmp_path / "params.yaml").touch()
    project = Project.find(tmp_path)
    made(project, "data/iris/x.npy")
    ignore(project, ["data/iris"])
    assert not (tmp_path / "data/.gitignore").exists()


def test_doctor_names_outputs_that_git_tracks(project):
    made(project, "data/iris/train/x.npy")
    git(project, "add", "--force", "data/iris")
    found = {finding.what: finding.remedy for finding in examine(project.folder) if finding.state == MISSING}
    assert found == {"Git tracks data/iris, an output": "`git rm -r --cached data/iris`, and commit"}


@pytest.mark.long
def test_a_stage_that_fails_after_one_that_did_not(project):
    """DVC takes its own lines back then, and writes none when it skips the stage that is up to date."""
    recipe = project.folder / "recipes" / "iris.py"
    whole = recipe.read_text()
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}

    def repro(status):
        done = subprocess.run(
            ["dvc", "repro"], cwd=project.folder, env=environment, capture_output=True, text=True, check=False
        )
        assert (done.returncode == 0) == (status == 0), done.stderr

    recipe.write_text(f"{whole}\nraise ValueError(1)\n")
    repro(255)
    recipe.write_text(whole)
    repro(0)
    git(project, "add", ".")
    added = [path for path in git(project, "ls-files") if path.startswith(("data/iris", "models/iris", "runs/"))]
    assert {path for path in added if not path.endswith(".gitignore")} == {"runs/iris/environment.json"}
