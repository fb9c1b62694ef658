"""Where a project keeps what outlives a worktree, in every way in which Git may have laid out a checkout."""

from pathlib import Path

import pytest
from repositories import git

from tapeline.config.project import Project


@pytest.fixture
def repository(tmp_path):
    """Return a maker of repositories with a project at the top and one in `inner`, in a folder of any name."""

    def make(name="checkout"):
        folder = tmp_path.resolve() / name
        (folder / "inner").mkdir(parents=True)
        for project in (folder, folder / "inner"):
            (project / "params.yaml").touch()
        git(folder, "init", "-q", "-b", "main")
        git(folder, "add", "-A")
        git(folder, "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "-qm", "all")
        return folder

    return make


def bare(origin: Path) -> Path:
    git(origin.parent, "clone", "-q", "--bare", str(origin), "origin.git")
    git(origin.parent / "origin.git", "worktree", "add", "-q", "--detach", str(origin.parent / "a tree"))
    return origin.parent / "a tree"


def separate(origin: Path) -> Path:
    git(origin.parent, "clone", "-q", "--separate-git-dir", str(origin.parent / "elsewhere"), str(origin), "separate")
    return origin.parent / "separate"


@pytest.mark.parametrize("inside", ["", "inner"])
@pytest.mark.parametrize("laid_out", [lambda origin: origin, bare, separate], ids=["usual", "bare", "separate"])
def test_an_isolated_run_shares_with_the_checkout_that_made_its_worktree(repository, laid_out, inside):
    """Else its checkpoints go with its worktree, and identical runs do not see each other."""
    project = Project.find(laid_out(repository()) / inside)
    tree = project.worktrees / "brave-otter"
    git(project.folder, "worktree", "add", "-q", "--detach", str(tree))
    found = Project.find(tree / inside)
    assert found.folder == tree / inside and found.local == tree / inside / ".tapeline"
    assert found.shared == project.shared
    assert not found.shared.is_relative_to(tree)


def test_checkouts_of_a_bare_repository_are_apart(repository):
    tree = bare(repository())
    assert Project.find(tree).shared == tree / ".tapeline"
    assert Project.find(tree / "inner").shared == tree / "inner/.tapeline"


@pytest.mark.parametrize("name", ["two\nlines", "ends in one\n", "\n"])
def test_a_path_with_a_newline(repository, name):
    folder = repository(name)
    assert Project.find(folder / "inner").shared == folder / ".tapeline/inner"
    git(folder, "worktree", "add", "-q", "--detach", str(folder.parent / "other\ntree"))
    assert Project.find(folder.parent / "other\ntree").shared == folder / ".tapeline"


def test_outside_git_all_is_local(tmp_path):
    (tmp_path / "params.yaml").touch()
    assert Project.find(tmp_path).shared == tmp_path.resolve() / ".tapeline"
