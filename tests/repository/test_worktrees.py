"""A worktree is removed with what Git knows of it, whole or half-made."""

import pytest
from repositories import Repository

from tapeline.repository.git import Git
from tapeline.repository.worktrees import FAILED, LOCK, beside, remove


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    return Repository(tmp_path_factory.mktemp("repository"))


@pytest.mark.parametrize("half_made", [False, True])
def test_nothing_is_left(repository, half_made):
    git, worktree = Git(repository.folder), repository.folder / ".tapeline/worktrees/brave-owl"
    git("worktree", "add", "--quiet", "--detach", str(worktree), "HEAD")
    for suffix in (FAILED, LOCK):
        beside(worktree, suffix).touch()
    known = repository.folder / ".git/worktrees/brave-owl"
    assert known.is_dir()
    if half_made:  # by a Git that was killed meanwhile
        (known / "locked").write_text("initializing")
    remove(git, worktree)
    assert not known.exists() and list(worktree.parent.iterdir()) == []


def test_a_worktree_that_is_away_stays_known(repository, tmp_path):
    git, ours = Git(repository.folder), repository.folder / ".tapeline/worktrees/quiet-fox"
    git("worktree", "add", "--quiet", "--detach", str(ours), "HEAD")
    git("worktree", "add", "--quiet", "--detach", str(tmp_path / "disk"), "HEAD")
    (tmp_path / "disk").rename(tmp_path / "away")
    remove(git, ours)
    (tmp_path / "away").rename(tmp_path / "disk")
    assert Git(tmp_path / "disk")("rev-parse", "HEAD").strip() == git("rev-parse", "HEAD").strip()
    assert not (repository.folder / ".git/worktrees/quiet-fox").exists()
