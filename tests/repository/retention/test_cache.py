"""What of DVC's cache is in use: what any commit records, whatever Git is set to show of it."""

import time

import pytest
from damaged import lose
from repositories import git

from tapeline.repository.git import Git
from tapeline.repository.retention.cache import Cache
from tapeline.repository.retention.item import Limits
from tapeline.runtime.errors import InputError, RunError

AUTHOR = ("-c", "user.name=t", "-c", "user.email=t@example.org")


def commit(folder, md5=""):
    (folder / "dvc.lock").write_text(f"md5: {md5}\n")
    git(folder, "add", "dvc.lock")
    git(folder, *AUTHOR, "commit", "--quiet", "--message", "x")


def stored(cache, digits):
    for digit in digits:
        path = cache.folder / (2 * digit) / (30 * digit)
        path.parent.mkdir(parents=True)
        path.touch()


def usual(folder, *arguments):
    git(folder, "init", "--quiet", *arguments, "project")
    commit(folder / "project")
    return folder / "project"


def bare(folder, name="origin.git"):
    git(folder, "init", "--quiet", "--bare", name)
    tree = git(folder / name, "mktree", "--missing").strip()
    made = git(folder / name, *AUTHOR, "commit-tree", tree, "-m", "x")
    git(folder / name, "worktree", "add", "--quiet", "--detach", str(folder / "a tree"), made.strip())
    return folder / "a tree"


def separate(folder):
    return usual(folder, "--separate-git-dir", "elsewhere")


def submodule(folder):
    """In a repository that has a cache of its own."""
    inner, outer = folder / "inner", folder / "outer"
    for one in (inner, outer):
        git(folder, "init", "--quiet", one.name)
        commit(one)
        with_dvc(one)
    git(outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "sub")
    return outer / "sub"


def with_dvc(folder):
    (folder / ".dvc").mkdir()
    (folder / ".dvc" / "config").touch()


LAID_OUT = {
    "usual": usual,
    "bare": bare,
    "a bare .git": lambda folder: bare(folder, ".git"),
    "separate": separate,
    "submodule": submodule,
}


@pytest.mark.parametrize("laid_out", LAID_OUT.values(), ids=LAID_OUT)
def test_the_cache_is_the_checkout_s_wherever_git_s_folder_is(tmp_path, laid_out):
    folder = laid_out(tmp_path)
    with_dvc(folder)
    cache = Cache.of(Git(folder))
    assert (cache.git.folder, cache.folder) == (folder, folder / ".dvc" / "cache" / "files" / "md5")
    (folder / "dvc.lock").write_text(f"md5: {'1' * 32}\n")
    stored(cache, "12")
    found = cache.items(without=(), worktrees=(), limits=Limits(), now=time.time())
    assert [(item.name, bool(item.kept)) for item in found] == [("1 file", True), ("1 file", False)]


@pytest.mark.parametrize("is_worktree", [False, True])
def test_a_subfolder_s_own_cache_is_pruned(tmp_path, is_worktree):
    """As after `dvc init --subdir`, seen from a project in it."""
    top = usual(tmp_path)
    folder = top / "team" / "digits"
    folder.mkdir(parents=True)
    with_dvc(folder.parent)
    commit(folder, "1" * 32)
    if is_worktree:
        git(top, "worktree", "add", "--quiet", "--detach", str(tmp_path / "a tree"))
        folder = tmp_path / "a tree" / "team" / "digits"
        with_dvc(folder.parent)
    cache = Cache.of(Git(folder))
    assert (cache.git.folder, cache.folder) == (top / "team", top / "team" / ".dvc" / "cache" / "files" / "md5")
    stored(cache, "12")
    found = cache.items(without=(), worktrees=(), limits=Limits(), now=time.time())
    assert [(item.name, bool(item.kept)) for item in found] == [("1 file", True), ("1 file", False)]


def test_the_cache_of_the_repository_around_a_submodule_is_not_pruned_from_there(tmp_path):
    folder = submodule(tmp_path)
    with pytest.raises(InputError, match="is outside this repository and may be shared: not pruned"):
        Cache.of(Git(folder))


@pytest.mark.parametrize("shown", ["separate", "combined", "off"])
def test_what_only_a_merge_records_is_in_use(tmp_path, shown):
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    git(tmp_path, "config", "log.diffMerges", shown)
    commit(tmp_path, "1" * 32)
    git(tmp_path, "checkout", "--quiet", "-b", "side")
    commit(tmp_path, "2" * 32)
    git(tmp_path, "checkout", "--quiet", "-b", "merged", "main")
    commit(tmp_path, "3" * 32)
    git(tmp_path, *AUTHOR, "merge", "--quiet", "--no-commit", "--strategy=ours", "side")
    commit(tmp_path, "4" * 32)
    git(tmp_path, "checkout", "--quiet", "main")
    cache = Cache(Git(tmp_path), tmp_path / ".dvc" / "cache" / "files" / "md5")
    stored(cache, "12345")
    found = cache.items(without=(), worktrees=(), limits=Limits(), now=time.time())
    assert [(item.name, bool(item.kept)) for item in found] == [("4 files", True), ("1 file", False)]


def in_use(folder):
    """Have a look at the cache, which reads all that Git has."""
    cache = Cache(Git(folder), folder / ".dvc" / "cache" / "files" / "md5")
    return cache.items(without=(), worktrees=(), limits=Limits(), now=time.time())


@pytest.fixture
def repository(tmp_path):
    """A repository whose branch `side` alone records something."""
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    for name, value in (("user.name", "t"), ("user.email", "t@example.org")):
        git(tmp_path, "config", name, value)
    commit(tmp_path, "1" * 32)
    git(tmp_path, "checkout", "--quiet", "-b", "side")
    commit(tmp_path, "2" * 32)
    git(tmp_path, "checkout", "--quiet", "main")
    assert in_use(tmp_path) == []
    return tmp_path


def test_a_record_that_git_cannot_read_stops_everything(repository):
    """What it names would be deleted, of which nobody else knows."""
    lose(repository, "side:dvc.lock")
    with pytest.raises(RunError, match="^git cat-file: [0-9a-f]{40} missing$"):
        in_use(repository)


@pytest.mark.parametrize("content", ["", "0" * 40, "1" * 40, "x"])
def test_a_branch_that_git_cannot_read_stops_everything(repository, content):
    """Git lists the others, and only warns."""
    (repository / ".git" / "refs" / "heads" / "side").write_text(content)
    with pytest.raises(RunError, match="^git .*refs/heads/side"):
        in_use(repository)


def test_the_default_branch_of_a_remote_may_be_gone(repository):
    git(repository, "symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main")
    assert in_use(repository) == []
