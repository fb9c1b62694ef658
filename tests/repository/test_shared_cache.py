"""What a worktree's DVC is told."""

import stat
import sys

from repositories import Repository, called

from tapeline.repository.shared_cache import share_cache


def test_no_other_user_can_write_where_the_dvc_of_a_worktree_keeps_pickles(tmp_path):
    """DVC makes that folder, and those above it, with mode 0777, whatever the umask."""
    repository, tree = Repository(tmp_path / "repository"), tmp_path / "tree"
    repository.git("worktree", "add", "--quiet", "--detach", str(tree))
    share_cache(repository.folder / ".dvc", tree / ".dvc")
    called(tree, sys.executable, "-m", "dvc", "checkout", "--quiet", "train@one")
    site = tree / ".dvc" / "tmp" / "site"
    assert list((site / "repo").iterdir())
    assert stat.S_IMODE(site.stat().st_mode) == 0o700
