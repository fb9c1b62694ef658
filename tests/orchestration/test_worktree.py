"""Worktrees of isolated runs: which of them stay."""

import subprocess

import pytest

from tapeline.config.project import Project
from tapeline.orchestration.isolation.worktree import worktree
from tapeline.runtime.errors import InputError, Interrupted, RunError


@pytest.mark.parametrize(
    ("error", "kept"),
    [
        (RunError("it failed"), True),
        (ValueError(), True),
        (InputError("train.epoch: no such setting"), False),
        (Interrupted("stopped", signum=15), False),
    ],
)
def test_what_failed_is_kept_and_a_mistake_is_not(project, error, kept):
    folder, said = project(), []
    subprocess.run(["git", "branch", "-M", "main"], cwd=folder, check=True)
    with pytest.raises(type(error)), worktree(Project.find(folder), "main", name="a", say=said.append) as tree:
        assert tree.project.folder.is_dir()
        raise error
    assert [p.name for p in (folder / ".tapeline/worktrees").iterdir() if p.is_dir()] == ["a"] * kept
    assert any("is kept for inspection" in line for line in said) == kept
