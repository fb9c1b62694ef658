"""Calls of Git that wait for somebody else, and what is left of them."""

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
    monkeypatch.setattr(git_call, "NO_QUESTIONS", {})
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
    with pytest.raises(InputError, match="there is no git on the PATH: install Git"):
        git_call.called(repository, *arguments)
    with pytest.raises((InputError, RunError)):
        git_call.called(repository / "gone", *arguments)
