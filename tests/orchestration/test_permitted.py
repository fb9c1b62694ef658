"""Overrides stay inside the repository and name only committed recipes."""

import subprocess

import pytest

from tapeline.config.project import Project
from tapeline.orchestration.isolation.isolated_run import isolated
from tapeline.orchestration.isolation.permitted import check
from tapeline.orchestration.isolation.worktree import Worktree
from tapeline.orchestration.monitors.terminal import Terminal
from tapeline.orchestration.request import Request
from tapeline.orchestration.runs.sweep import search
from tapeline.orchestration.sweeps.request import SweepRequest
from tapeline.repository.git import Git
from tapeline.runtime.errors import InputError


@pytest.fixture(scope="module", params=["", "below/it"])
def tree(request, tmp_path_factory):
    """A repository with a project at its top or in a folder, as a run's worktree has it; code beside it, too."""
    tmp_path = tmp_path_factory.mktemp("beside")
    top = tmp_path / "repository"
    folder = top / request.param
    (folder / "recipes").mkdir(parents=True)
    (tmp_path / "evil.py").write_text("raise SystemExit")
    (tmp_path / "data").mkdir()
    (folder / "params.yaml").write_text("{}")
    (folder / "recipes/good.py").write_text("")
    (folder / "recipes/[x].py").write_text("")
    (folder / "recipes/link.py").symlink_to(tmp_path / "evil.py")
    (folder / "recipes/near.py").symlink_to("good.py")
    (folder / "out").symlink_to(tmp_path)
    (folder / "inner").symlink_to("recipes")
    (top / "shared.py").write_text("")
    for command in (["init", "-q"], ["add", "-A"], ["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "a"]):
        subprocess.run(["git", *command], cwd=top, check=True)
    (folder / "recipes/fresh.py").write_text("")
    return Worktree("run", Git(folder).commit_of("HEAD"), Project(folder, folder, folder))


GOOD = ["recipes/good.py", "./recipes/../recipes/good.py", "recipes/[x].py"]


@pytest.mark.parametrize("recipe", GOOD)
def test_a_committed_recipe_is_allowed(tree, recipe):
    check(tree, {"recipe": recipe, "train.epochs": 3})


def test_one_of_the_repository_above_the_project_is_allowed(tree):
    above = "../../shared.py" if tree.project.folder.name == "it" else "shared.py"
    check(tree, {"recipe": above})


@pytest.mark.parametrize(
    "recipe",
    [
        "recipes/fresh.py",
        "recipes/link.py",
        "recipes/near.py",
        "inner/good.py",
        "out/evil.py",
        "../../../evil.py",
        "/etc/passwd",
        "recipes",
        "recipes/",
        ".",
        "recipes/*.py",
        ":(glob)recipes/*.py",
        "--format=x",
    ],
)
def test_another_recipe_is_refused(tree, recipe):
    with pytest.raises(InputError, match=r"^overrides\.recipe is .*which is not in commit") as refusal:
        check(tree, {"recipe": recipe})
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("key", ["recipe", "needs", "train.init_from"])
@pytest.mark.parametrize("value", [7, True, ["a"], {"a": 1}, "", "a\0b", "a\nb"])
def test_what_is_no_path_is_refused(tree, key, value):
    with pytest.raises(InputError, match="must be a path inside the repository"):
        check(tree, {key: value})


@pytest.mark.parametrize("key", ["needs", "train.init_from"])
@pytest.mark.parametrize("path", ["/etc", "../../..", "out/data", "out/../x", "recipes/../../../../data", "out"])
def test_what_lies_outside_is_refused(tree, key, path):
    with pytest.raises(InputError, match="leads out of the repository"):
        check(tree, {key: path})


@pytest.mark.parametrize("path", ["recipes", "data/raw/comes-later.csv", "inner/good.py", "recipes/near.py"])
def test_what_lies_inside_is_allowed(tree, path):
    check(tree, {"needs": path, "train.init_from": path})


def test_registered_weights_are_allowed(tree):
    check(tree, {"train.init_from": "digits@v1.2.0"})


@pytest.fixture
def here(project, tmp_path, monkeypatch):
    folder = project()
    subprocess.run(["git", "branch", "-M", "main"], cwd=folder, check=True)
    (tmp_path / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.chdir(folder)
    return Project.find(folder)


def test_a_run_and_a_sweep_refuse_before_anything_runs(here, tmp_path):
    evil = str(tmp_path / "evil.py")
    request = Request.of(pipeline="tiny", isolated=True, overrides={"recipe": evil})
    with pytest.raises(InputError, match=r"overrides\.recipe"):
        with isolated(request, here, flow_run={"name": "a", "id": "1"}, say=print):
            pass
    sweep = {"pipeline": "tiny", "metric": "distance", "goal": "min"}
    given = SweepRequest.of(**sweep, over={"train.epochs": [1, 2]}, overrides={"recipe": evil})
    searched = SweepRequest.of(**sweep, over={"recipe": ["recipe.py", evil]})
    for wrong in (given, searched):
        with pytest.raises(InputError, match=r"overrides\.recipe"):
            search(wrong, here, Terminal(here))
    assert not (tmp_path / "ran").exists()
    assert list(here.worktrees.glob("[!.]*")) == []
