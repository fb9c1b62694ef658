"""What DVC is asked in this process: stages in order, across folders, and which of them are stale."""

import shutil
import subprocess
import sys

import pytest

from tapeline.config.project import Project
from tapeline.orchestration.stages.dvc_stage import DvcProject
from tapeline.orchestration.stages.execution import bring_up_to_date
from tapeline.orchestration.stages.outcome import Outcome
from tapeline.runtime.errors import InputError, RunError

# DVC itself uses what pygtrie is about to drop.
pytestmark = pytest.mark.filterwarnings("ignore:_NoneStep.value:DeprecationWarning")

GALLERY = """
stages:
  export:
    foreach: {other: {}}
    do:
      cmd: exec cp ../data/points/x.txt ${key}
      deps: [../data/points]
      outs: ["${key}"]
"""

SHARED = """
stages:
  make: {cmd: "echo 1 > points", outs: [points]}
"""


def names(stages):
    return [str(stage) for stage in stages]


def update(dvc, stage, project=None):
    said, followed = [], []
    project = Project.find(project or stage.file.parent)
    return bring_up_to_date(dvc, stage, project=project, say=said.append, follow=followed.append), said, followed


def test_stages_in_order(project):
    stages = DvcProject(project()).upstream("export@tiny")
    assert names(stages) == ["ingest@points", "train@tiny", "validate@tiny", "export@tiny"]


def test_the_commands_of_a_stage(project):
    folder = project()
    path = folder / "dvc.yaml"
    text = path.read_text()
    assert DvcProject(folder).commands("train@tiny") == ["exec python stage.py train tiny"]
    path.write_text(text.replace("cmd: exec python stage.py train ${key}", "cmd: [first, 'second ${key}']"))
    assert DvcProject(folder).commands("train@tiny") == ["first", "second tiny"]


def test_a_folder_inside_the_repository_uses_stages_outside_it(project):
    folder = project() / "gallery"
    folder.mkdir()
    (folder / "dvc.yaml").write_text(GALLERY)
    (folder / "params.yaml").write_text("")
    dvc = DvcProject(folder)
    stages = dvc.upstream("export@other")
    assert names(stages) == ["ingest@points", "export@other"]
    assert [stage.title for stage in stages] == ["../dvc.yaml:ingest@points", "export@other"]
    assert [update(dvc, stage)[0].word for stage in stages] == ["ran", "ran"]
    assert (folder / "other").read_text() == "a\n1\n2\n"
    assert (folder / "dvc.lock").exists()
    assert [dvc.is_stale(stage) for stage in stages] == [False, False]


@pytest.mark.slow
def test_a_folder_beside_the_project_makes_its_dataset(tmp_path, committed):
    """The folder is in no project."""
    folder, beside = tmp_path / "project", tmp_path / "shared"
    shutil.copytree(committed, folder, ignore=shutil.ignore_patterns(".git", ".dvc"))
    (folder / "behaviour").write_text("well")
    beside.mkdir()
    (beside / "dvc.yaml").write_text(SHARED)
    path = folder / "dvc.yaml"
    path.write_text(path.read_text().replace("data/${item.dataset}", "../shared/points"))
    for command in (["git", "init", "-q"], [sys.executable, "-P", "-m", "dvc", "init", "-q"]):
        subprocess.run(command, cwd=tmp_path, check=True)
    dvc = DvcProject(folder)
    stages = dvc.upstream("train@tiny")
    assert names(stages) == ["make", "train@tiny"]
    outcomes = [update(dvc, stage, folder) for stage in stages]
    assert [(outcome.word, outcome.message) for outcome, *_ in outcomes] == [("ran", "")] * 2
    assert [record["done"] for record in outcomes[1][2]] == [1, 2, 3, 4, 5]
    assert (beside / "dvc.lock").exists()
    (beside / "dvc.yaml").write_text(SHARED.replace("echo 1", "echo gone to lunch; exit 3; echo 1"))
    assert update(dvc, stages[0], folder)[0] == Outcome(word="failed", message="gone to lunch", status=1)


def test_what_a_stage_tells_is_said_and_followed(project):
    dvc = DvcProject(project())
    ingest, train, *_ = dvc.upstream("export@tiny")
    assert dvc.is_stale(ingest)
    assert update(dvc, ingest)[0].word == "ran"
    outcome, said, followed = update(dvc, train)
    assert (outcome.word, outcome.ok) == ("ran", True)
    assert said == ["dvc repro --single-item train@tiny", "first line", "last | line"]
    assert [record["done"] for record in followed] == [1, 2, 3, 4, 5]
    assert update(dvc, train)[0].word == "unchanged"


def test_what_dvc_refuses_is_one_line_of_its_own(project, tmp_path):
    folder = project()
    with pytest.raises(RunError, match=r"^DVC: .*export@none"):
        DvcProject(folder).upstream("export@none")
    (folder / "dvc.yaml").write_text("stages: [")
    with pytest.raises(InputError, match=r"^dvc\.yaml, line 2: not YAML: ") as refusal:
        DvcProject(folder).upstream("export@tiny")
    assert "\n" not in str(refusal.value)
    with pytest.raises(RunError, match="not inside of a DVC repository"):
        DvcProject(tmp_path)


def test_a_lock_that_git_ignores_is_refused_with_the_pattern(project):
    """As by `*.lock` in an ignore file of all of a user's repositories."""
    folder = project()
    (folder / ".git/info/exclude").write_text("*.lock\n")
    (folder / "dvc.lock").unlink(missing_ok=True)
    with pytest.raises(InputError, match=r"dvc.lock would never be committed: `\*.lock` in line 1 of .*exclude hides"):
        DvcProject(folder)


def test_a_broken_file_of_another_team_is_named_with_a_remedy(project, monkeypatch):
    folder = project()
    other = folder / "other"
    other.mkdir()
    (other / "dvc.yaml").write_text("stages:\n  a: {cmd: [x\n")
    inner = folder / "inner"
    inner.mkdir()
    for name in ("dvc.yaml", "params.yaml"):
        shutil.copy(folder / name, inner / name)
    monkeypatch.chdir(inner)
    with pytest.raises(
        RunError, match=r"read: '\.\./other/dvc.yaml'.*; have it mended, or add its folder to .dvcignore"
    ):
        DvcProject(inner).upstream("export@tiny")
