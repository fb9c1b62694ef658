"""Git is called in one place, which runs nothing of the repository's, and a branch is no tag of the same name."""

import os
import re
import shutil
import subprocess
import sys

import pytest
from damaged import lose

from tapeline.config.project import Project
from tapeline.repository.git import Git
from tapeline.runtime.errors import InputError, RunError


@pytest.fixture
def git(tmp_path):
    """A repository with two commits; the tags are on the first, branches on the second."""
    subprocess.run(["git", "init", "--quiet", "--initial-branch=main"], cwd=tmp_path, check=True)
    for key in ("user.name", "user.email"):
        subprocess.run(["git", "config", key, "Ann"], cwd=tmp_path, check=True)
    made = Git(tmp_path)
    made("commit", "--quiet", "--allow-empty", "--message", "of Eve")
    for name in (
        "main",
        "heads/main",
        "origin/runs/owl",
        "v1",
        "HEAD",
        "refs/heads/none",
        "refs/heads/origin/runs/owl",
    ):
        made("update-ref", f"refs/tags/{name}", "HEAD")
    made("commit", "--quiet", "--allow-empty", "--message", "ours")
    made("update-ref", "refs/remotes/origin/runs/owl", "HEAD")
    return made


def test_a_branch_is_preferred_to_a_tag_which_anybody_may_push(git):
    """A tag `main` had isolated runs, sweeps and schedules train, and so run, what was tagged."""
    eve, ours = git("rev-parse", "refs/tags/main"), git("rev-parse", "refs/heads/main")
    assert git("rev-parse", "main") == eve != ours, "Git itself takes the tag"
    for ref in ("main", "HEAD", "heads/main", "refs/heads/main", "origin/runs/owl", ours, "main~0"):
        assert git.commit_of(ref) == ours, ref
    assert git.commit_of(git.main_branch()) == ours
    for ref in ("v1", "refs/tags/main", "main~1", "origin/runs/owl^", "HEAD^", "@~1", "main@{0}~1", eve[:12]):
        assert git.commit_of(ref) == eve, ref
    for ref in ("none", "none~0", "--all", "", "main:x", "refs/heads/none", "refs/heads/none~0"):
        with pytest.raises(InputError, match="no such branch, tag or commit"):
            git.commit_of(ref)


def test_the_default_branch_is_the_remotes_whatever_a_tag_is_called(git):
    git("update-ref", "refs/heads/develop", "HEAD")
    git("update-ref", "refs/remotes/origin/develop", "HEAD")
    git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/develop")
    git("update-ref", "refs/tags/origin/develop", "HEAD~1")  # Git's short name is another one then
    assert git.main_branch() == "develop"


def test_before_the_first_commit_there_is_no_branch_to_name(tmp_path):
    git = Git(tmp_path)
    git("init", "--quiet", "--initial-branch=main")
    with pytest.raises(InputError, match="nothing is committed yet: `git add"):
        git.main_branch()


@pytest.mark.parametrize("given", [(), ("NAME",), ("EMAIL",), ("NAME", "EMAIL")])
def test_a_commit_has_an_author_whatever_the_variables_name(tmp_path, monkeypatch, given):
    """With a committer in the variables alone Git found no author: after the training the run was lost."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for part in ("NAME", "EMAIL"):
        monkeypatch.delenv(f"GIT_AUTHOR_{part}", raising=False)
        monkeypatch.delenv(f"GIT_COMMITTER_{part}", raising=False)
    for part in given:
        monkeypatch.setenv(f"GIT_COMMITTER_{part}", "ann")
    git = Git(tmp_path)
    git("init", "--quiet", "--initial-branch=main")
    git("config", "user.useConfigOnly", "true")  # whatever this machine is called
    tree = git("write-tree")
    parent = git("-c", "user.name=Eve", "-c", "user.email=eve", "commit-tree", tree, "-m", "first")
    made = git.commit("a run", tree=tree, parent=parent)
    committer = ["ann" if "NAME" in given else "Tapeline", "ann" if "EMAIL" in given else "tapeline@localhost"]
    assert git.lines("show", "--no-patch", "--format=%an%n%ae%n%cn%n%ce", made) == [
        *("Tapeline", "tapeline@localhost"),
        *committer,
    ]


def test_git_is_called_in_one_place(root):
    """Elsewhere it would run the hooks and the file-system monitor that a repository names."""
    found = {
        path.relative_to(root / "src/tapeline").as_posix()
        for path in (root / "src/tapeline").rglob("*.py")
        if "subprocess." in (text := path.read_text()) and re.search(r"""["']git["'],""", text)
    }
    assert found == {"runtime/git_call.py"}


def test_contents_are_those_of_the_objects(git):
    contents = ("\udcff\n", "", "\n1 blob 7\n")
    blobs = [git("hash-object", "-w", "--stdin", given=content) for content in contents]
    assert list(git.contents(blobs)) == [b"\xff\n", b"", b"\n1 blob 7\n"]
    assert list(git.contents([])) == []
    with pytest.raises(RunError, match="^git cat-file: 0{40} missing$"):
        list(git.contents([*blobs, "0" * 40]))


def test_a_file_of_a_commit_is_there_or_not_or_cannot_be_read(git):
    assert git.blob("HEAD", "a") is None is git.blob("none", "a")
    (git.folder / "b").mkdir()
    (git.folder / "b/a").write_text("x")
    git("add", "b")
    git("commit", "--quiet", "--message", "a file")
    inside = Git(git.folder / "b")
    assert git.blob("HEAD", "b/a") == inside.blob("HEAD", "./a") == inside.blob("HEAD", "b/a") == b"x"
    for path in ("b", "a", "b/b", "b/a/c", "./a", "", "./", "../a", "/a"):
        assert git.blob("HEAD", path) is None
    for name, said in (
        ("HEAD:b/a", "bad file"),
        ("HEAD:b", "Could not read"),
        ("HEAD", "not a tree object"),
    ):
        lose(git.folder, name)
        for one, path in ((git, "b/a"), (inside, "./a")):
            with pytest.raises(RunError, match=said):
                one.blob("HEAD", path)


def test_a_push_that_fails_says_why(git, tmp_path):
    """Git's last line is `failed to push some refs`, its one with `fatal: ` that it got no answer."""
    git("init", "--quiet", "--bare", "remote.git")
    git("remote", "add", "origin", "./remote.git")
    hook = tmp_path / "remote.git/hooks/pre-receive"
    hook.write_text("#!/bin/sh\necho tags are for maintainers\nexit 1\n")
    hook.chmod(0o755)
    said = r"^git push: ! \[remote rejected\] v1 -> v1 \(pre-receive hook declined\): tags are for maintainers$"
    with pytest.raises(RunError, match=said):
        git("push", "--quiet", "origin", "refs/tags/v1")
    hook.unlink()
    git("push", "--quiet", "origin", "refs/heads/main")
    git("commit", "--quiet", "--amend", "--allow-empty", "--message", "another")
    with pytest.raises(RunError, match=r"^git push: ! \[rejected\] main -> main \(non-fast-forward\)$"):
        git("push", "--quiet", "origin", "refs/heads/main")
    with pytest.raises(RunError, match="^git push: fatal: '.*gone' does not appear to be a git repository$"):
        git("push", "--quiet", str(tmp_path / "gone"), "refs/heads/main")


def test_the_remote_to_push_to(git):
    assert git.remote() is None
    for name, expected in (("backup", "backup"), ("origin", "origin"), ("mine", "origin")):
        git("remote", "add", name, "x")
        assert git.remote() == expected
    git("config", "remote.pushDefault", "mine")
    assert git.remote() == "mine"


def test_a_file_where_there_is_no_repository(tmp_path):
    assert Git(tmp_path).blob("HEAD", "a") is None
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    assert Git(tmp_path).blob("HEAD", "a") is None, "no commits yet"
    (tmp_path / ".git/HEAD").write_text("")
    with pytest.raises(InputError, match="is not in a Git repository"):
        Git(tmp_path).blob("HEAD", "a")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_a_repository_that_git_refuses_is_not_one_without_branches(git, monkeypatch):
    monkeypatch.delenv("SUDO_UID", raising=False)
    for path in (git.folder, git.folder / ".git"):
        os.chown(path, 65534, 65534)
    said = "^git rev-parse: fatal: detected dubious ownership in repository at .*: `git config --global .*` helps$"
    for ask in (git.main_branch, lambda: git.commit_of("main"), lambda: git.blob("HEAD", "a")):
        with pytest.raises(RunError, match=said):
            ask()


FULL = """
import os
import sys
from pathlib import Path
from tapeline.config.project import Project
from tapeline.repository.git import Git
from tapeline.runtime.errors import RunError

folder = Path(sys.argv[1])
git = Git(folder)
git("init", "--quiet")
git("config", "user.name", "t")
git("config", "user.email", "t@example.org")
(folder / "large").write_bytes(os.urandom(150_000))
git("add", "large")
git("commit", "--quiet", "--message", "large")
try:
    git("worktree", "add", "--quiet", "--detach", str(folder / "tree"))
except RunError as error:
    print(error)
"""


def test_a_full_disk_is_named(tmp_path):
    """Git says only that it could not reset its index."""
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode:
        pytest.skip("this system lets nobody make a mount namespace")
    mounted = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o size=500k none "$1" && exec "$2" -c "$3" "$1"', "sh"]
    command = [*mounted, str(tmp_path), sys.executable, FULL]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    assert said.startswith("git worktree: ")
    assert said.endswith(": no space left on the disk: free some and run again\n")


def test_worktrees_are_listed_whatever_they_are_called(git, tmp_path):
    other = tmp_path / "two\n\nlines"
    git("worktree", "add", "--quiet", "--detach", str(other), "HEAD~1")
    first, second = git("rev-parse", "HEAD~1"), git("rev-parse", "HEAD")
    assert git.worktrees() == [(git.folder, second), (other, first)]
    empty = Git(tmp_path / "empty")
    subprocess.run(["git", "init", "--quiet", str(empty.folder)], check=True)
    assert empty.worktrees() == [(empty.folder, "")]


def test_worktrees_are_listed_by_a_git_that_lacks_the_option(git, tmp_path, monkeypatch):
    """Git has `-z` there since 2.36; Ubuntu 22.04 has 2.34."""
    git("worktree", "add", "--quiet", "--detach", str(tmp_path / "two"), "HEAD~1")
    listed = git.worktrees()
    older = tmp_path / "bin" / "git"
    older.parent.mkdir()
    older.write_text(f"""#!/bin/sh
case " $* " in *" worktree list "*" -z "*) echo "error: unknown switch 'z'" >&2; exit 129;; esac
exec {shutil.which("git")} "$@"
""")
    older.chmod(0o755)
    monkeypatch.setenv("PATH", f"{older.parent}:{os.environ['PATH']}")
    assert git.worktrees() == listed and len(listed) == 2


def test_folders_are_found_by_a_git_that_lacks_the_option(git, tmp_path, monkeypatch):
    """Git has `--path-format` since 2.31; Debian 11 has 2.30, which prints what it does not know."""
    git("worktree", "add", "--quiet", "--detach", str(tmp_path / "two"), "HEAD")
    for checkout in (tmp_path, tmp_path / "two"):
        (checkout / "inner").mkdir()
        (checkout / "inner" / "params.yaml").touch()
    older = tmp_path / "bin" / "git"
    older.parent.mkdir()
    older.write_text(f"""#!/bin/bash
for word in "$@"; do case $word in --path-format=*) echo "$word";; *) known+=("$word");; esac; done
exec {shutil.which("git")} "${{known[@]}}"
""")
    older.chmod(0o755)
    monkeypatch.setenv("PATH", f"{older.parent}:{os.environ['PATH']}")
    for checkout in (tmp_path, tmp_path / "two"):
        inner = Git(checkout / "inner")
        assert (inner.top(), inner.common()) == (checkout, tmp_path / ".git")
        assert Project.find(inner.folder).shared == tmp_path / ".tapeline" / "inner"
