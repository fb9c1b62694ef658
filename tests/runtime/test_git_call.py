"""Calls of Git: those that wait for somebody else, what is left of them, and what settings change nothing in them."""

import os
import subprocess
import sys

import pytest
import waiting
from surroundings import below, wait_for_none

from tapeline.runtime import git_call, leash
from tapeline.runtime.errors import InputError, RunError

SSH = "#!/bin/sh\ntouch asked\nexec sleep 601\n"
"""A server that does not answer."""

PUSH = ("push", "--quiet", "ssh://host/repository", "main")


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository whose remote never answers."""
    program = tmp_path / "ssh"
    program.write_text(SSH)
    program.chmod(0o755)
    monkeypatch.setenv("GIT_SSH", str(program))
    monkeypatch.delenv("GIT_SSH_COMMAND", raising=False)
    monkeypatch.setenv("GIT_SSH_VARIANT", "ssh")
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=tmp_path, check=True)
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run(["git", *who, "commit", "-q", "--allow-empty", "-m", "all"], cwd=tmp_path, check=True)
    return tmp_path


def test_a_push_that_is_not_answered_leaves_nothing(repository):
    with pytest.raises(RunError, match="git push: did not finish within 1 s"):
        git_call.called(repository, *PUSH, timeout=1)
    assert (repository / "asked").exists() and below(repository) == []


def test_a_push_ends_with_this_process(repository):
    code = f"from pathlib import Path; from tapeline.runtime import git_call\ngit_call.called(Path(), *{PUSH!r})"
    env = {**os.environ, "GIT_SSH_COMMAND": str(repository / "ssh")}
    with subprocess.Popen([sys.executable, "-c", code], cwd=repository, env=env) as process:
        waiting.until((repository / "asked").exists, limit=60)
        process.kill()
    assert wait_for_none(repository) < leash.processes.GRACE


def test_what_is_quick_starts_no_interpreter(repository, monkeypatch):
    monkeypatch.setattr(leash, "run", None)
    assert git_call.called(repository, "rev-parse", "HEAD").returncode == 0
    assert git_call.called(repository, "worktree", "prune").returncode == 0
    assert git_call.called(repository, "--version").returncode == 0


@pytest.mark.parametrize("arguments", [("push",), ("status",)])
def test_without_git_one_line_says_so(repository, monkeypatch, arguments):
    monkeypatch.setenv("PATH", str(repository))
    with pytest.raises(InputError, match="git is not on the PATH: install Git"):
        git_call.called(repository, *arguments)
    with pytest.raises((InputError, RunError)):
        git_call.called(repository / "gone", *arguments)


def test_a_command_line_that_is_too_long_is_not_taken_for_a_missing_git(repository):
    with pytest.raises(RunError, match="git cannot be called in .*: Argument list too long"):
        git_call.called(repository, "log", *["refs/tags/digits@v1.0.0"] * 200_000)


@pytest.mark.parametrize(("place", "called"), [("--global", "theirs"), ("--local", "ssh"), ("variable", "theirs")])
def test_what_calls_ssh_is_what_this_user_has_set_and_not_the_repository(repository, monkeypatch, place, called):
    """A key of one's own is often set by `core.sshCommand`: each push was refused where `git push` worked."""
    for name in ("theirs", "ssh"):
        program = repository / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\necho {name} >> {repository}/calls; exit 1\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{repository / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(repository / "global"))
    monkeypatch.delenv("GIT_SSH")
    if place == "variable":
        monkeypatch.setenv("GIT_SSH", "theirs")
    else:
        subprocess.run(["git", "config", place, "core.sshCommand", "theirs"], cwd=repository, check=True)
    assert git_call.called(repository, *PUSH).returncode
    assert set((repository / "calls").read_text().split()) == {called}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LITERAL_PATHSPECS", "1"),
        ("NOGLOB_PATHSPECS", "1"),
        ("SHALLOW_FILE", "/dev/null"),
        ("DIR", "/"),
        ("NAMESPACE", "x"),
    ],
)
def test_what_a_hook_inherits_is_not_for_these_calls(repository, monkeypatch, name, value):
    """A program that calls `git --literal-pathspecs commit` has each hook take patterns for names."""
    (repository / "a").mkdir()
    (repository / "a" / "b.txt").touch()
    monkeypatch.setenv(f"GIT_{name}", value)
    found = git_call.called(repository, "ls-files", "--others", "--", ":(top,glob)**/*.txt").stdout
    assert found == b"a/b.txt\n"
    assert git_call.called(repository, "rev-parse", "--is-shallow-repository").stdout == b"false\n"


def test_which_command_it_is():
    assert git_call.verb(("-c", "log.showRoot=true", "--literal-pathspecs", "log", "--raw")) == "log"
    assert git_call.verb(("--version",)) == ""


def test_a_partial_clone_fetches_what_it_lacks_as_this_user_has_set_it(repository, monkeypatch):
    """A short call waits for a network there, by the program that the repository names: others may have written it."""
    (repository / "ssh").write_text(f"#!/bin/sh\necho ours >> {repository}/calls; exit 1\n")
    theirs = repository / "theirs"
    theirs.write_text(f"#!/bin/sh\necho theirs >> {repository}/calls; exit 1\n")
    theirs.chmod(0o755)
    monkeypatch.delenv("GIT_SSH")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(repository / "global"))
    monkeypatch.setenv("PATH", f"{repository}{os.pathsep}{os.environ['PATH']}")
    for name, value in {
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": "ssh://host/repository",
        "core.sshCommand": str(theirs),
    }.items():
        subprocess.run(["git", "config", name, value], cwd=repository, check=True)
    assert git_call.called(repository, "cat-file", "blob", "1" * 40).returncode
    assert set((repository / "calls").read_text().split()) == {"ours"}
