"""Pushing to a remote that takes the connection and says nothing."""

import socket
import subprocess
import sys

import pytest
from repositories import Repository
from surroundings import wait_for_none

from tapeline.runtime import processes

CODE = """
from tapeline.config.project import Project
from tapeline.orchestration.isolation.publishing import push
from tapeline.orchestration.isolation.worktree import Worktree
push(Worktree("a", "HEAD", Project.find()), "one", say=print)
"""


@pytest.mark.slow
def test_a_push_that_is_not_answered_ends_with_the_flow(tmp_path):
    repository = Repository(tmp_path / "a folder")
    with socket.create_server(("127.0.0.1", 0)) as remote:
        remote.settimeout(120)
        repository.dvc("remote", "add", "--default", "silent", f"http://127.0.0.1:{remote.getsockname()[1]}/")
        with subprocess.Popen([sys.executable, "-c", CODE], cwd=repository.folder) as flow:
            connection, _ = remote.accept()
            flow.kill()
        with connection:
            assert wait_for_none(repository.folder) < processes.GRACE


def test_a_remote_of_dvc_that_is_not_the_default_is_named(tmp_path):
    repository = Repository(tmp_path / "folder")
    repository.dvc("remote", "add", "web", "/nowhere")
    said = subprocess.check_output([sys.executable, "-c", CODE], cwd=repository.folder, text=True)
    assert "DVC has no default remote: nothing was pushed there; `dvc remote default web` sets it" in said


def test_after_a_push_that_failed_the_run_is_to_be_made_again(tmp_path):
    """`dvc push` in the checkout, as was advised, pushes other files: the branch was shared without its own."""
    repository = Repository(tmp_path / "folder")
    repository.git("remote", "add", "origin", "../nowhere.git")
    said = subprocess.run([sys.executable, "-c", CODE], cwd=repository.folder, text=True, stderr=-1, check=False).stderr
    assert said.endswith("; the run is committed on runs/a: run the same again, which only pushes it\n")
