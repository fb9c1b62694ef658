"""Artifacts of `dvc.yaml`: one that the registry could not find is named, with the remedy; others are left alone."""

import subprocess

import pytest

from tapeline.config.project import Project
from tapeline.repository.artifacts import mistakes
from tapeline.runtime import files
from tapeline.runtime.errors import InputError

MADE = ["data/iris", "models/iris", "models/other"]


@pytest.fixture
def project(tmp_path):
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    for name in ("params.yaml", "reports/kept.md", "reports/new.md", "raw/photos/a.png", "raw/photos.dvc"):
        files.write_text(tmp_path / name, "")
    subprocess.run(["git", "add", "reports/kept.md"], cwd=tmp_path, check=True)
    return Project.find(tmp_path)


def found(project, artifacts):
    files.write_text(project.folder / "dvc.yaml", f"artifacts: {artifacts}\n")
    return list(mistakes(project, ["iris", "other"], MADE))


@pytest.mark.parametrize(
    "artifacts",
    [
        "",
        "{}",
        "{iris: {path: models/iris}, other: {path: ./models/other/, type: model}}",
        "{best: {path: models/iris}, weights: {path: models/iris/saved_model}, table: {path: data/iris}}",
        "{report: {path: reports/kept.md}, photos: {path: raw/photos}, photo: {path: raw/photos/a.png}}",
    ],
)
def test_what_can_be_found(project, artifacts):
    assert found(project, artifacts) == []


OUTPUT = "write the output of a stage, or remove it"


@pytest.mark.parametrize(
    ("entry", "what", "remedy"),
    [
        (
            "iris: {path: models/irsi}",
            "has the path models/irsi, which is not what its pipeline exports",
            "write `path: models/iris`",
        ),
        (
            "iris: {path: models/other}",
            "has the path models/other, which is not what its pipeline exports",
            "write `path: models/iris`",
        ),
        ("iris: {type: model}", "has no path", "write `path: models/iris`"),
        ("iris: models/iris", "has no path", "write `path: models/iris`"),
        (
            "gone: {path: models/gone}",
            "has the path models/gone, which is not an output of any stage and does not exist",
            OUTPUT,
        ),
        ("gone: {path: models}", "has the path models, which is not an output of any stage and does not exist", OUTPUT),
        ("new: {path: reports/new.md}", "has the path reports/new.md, which is not an output of any stage", OUTPUT),
        ("out: {path: ../out}", "has the path ../out, which is not an output of any stage and does not exist", OUTPUT),
        ("out: {path: /}", "has the path /, which is not an output of any stage", OUTPUT),
        ('out: {path: "\\0"}', "has the path \0, which is not an output of any stage and does not exist", OUTPUT),
    ],
)
def test_what_nobody_could_find(project, entry, what, remedy):
    name = entry.partition(":")[0]
    assert found(project, f"{{{entry}}}") == [(f"artifact {name} of dvc.yaml {what}", remedy)]


def test_a_name_of_thousands_of_letters_does_not_exist(project):
    [(what, _)] = found(project, f"{{long: {{path: {'x' * 5000}}}}}")
    assert what.endswith("and does not exist")


def test_a_file_that_is_not_yaml_or_not_there(project):
    with pytest.raises(InputError, match=r"^dvc.yaml, line \d is not YAML: "):
        found(project, "[")
    (project.folder / "dvc.yaml").unlink()
    assert list(mistakes(project, [], [])) == []
