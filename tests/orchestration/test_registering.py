"""Two clones register at once, each a version of the same number: the first push has it."""

import shutil

import pytest
from registries import Registry

from tapeline.config.project import Project
from tapeline.orchestration.isolation import registering
from tapeline.orchestration.isolation.registering import check, register_run
from tapeline.orchestration.isolation.worktree import Worktree
from tapeline.registry import fetched, overtaken
from tapeline.registry import registry as registries
from tapeline.runtime.errors import InputError, RunError


def registered(registry):
    """Register and push HEAD as an isolated run does its commit; return what was said."""
    project, said = Project.find(registry.folder), []
    project.worktrees.mkdir(parents=True, exist_ok=True)
    tree, head = Worktree("a", "HEAD", project), registry.git("rev-parse", "HEAD").strip()
    register_run(tree, "one", "runs/a", head, flow_run="1", push_to="origin", say=said.append)
    return said


@pytest.mark.slow
def test_the_loser_takes_the_next_number(tmp_path):
    winner = Registry.make(tmp_path / "winner" / "project")
    winner.git("clone", "--quiet", "--bare", ".", "../origin.git")
    winner.git("remote", "add", "origin", str(tmp_path / "winner" / "origin.git"))
    loser = winner.copy(tmp_path / "loser")
    assert registered(winner) == ["registered one@v1.0.0", "pushed one@v1.0.0 to Git's remote origin"]
    loser.build(2)
    assert registered(loser) == [
        "registered one@v1.0.0",
        "origin has another one@v1.0.0, so this one was deleted",
        "registered one@v1.0.1",
        "pushed one@v1.0.1 to Git's remote origin",
    ]
    assert loser.commit_of("v1.0.0") == winner.commit_of("v1.0.0")
    assert loser.commit_of("v1.0.1") == loser.git("rev-parse", "HEAD").strip()
    assert "wrong: 0" in loser("registry", "audit").stdout

    winner.git("fetch", "--quiet", "--tags")
    for registry, value in ((winner, 3), (loser, 4)):
        registry.build(value)
        registry("registry", "register", "one")
    winner.git("push", "--quiet", "origin", "one@v1.0.2")
    way = "origin has another one@v1.0.2 than this clone; if nothing depends on the one here, `git tag --delete one@"
    with pytest.raises(RunError, match=f"^{way}"):
        registered(loser)
    loser("registry", "promote", "one", "prod")
    opened = registries.Registry.for_model(Project.find(loser.folder), "one")
    before = loser.state()
    with pytest.raises(RunError, match=f"^one#prod#1 was made since: {way}"):
        overtaken.withdraw(opened, "one", "one@v1.0.2", remote="origin")
    assert loser.state() == before


@pytest.mark.slow
def test_a_folder_that_no_tag_can_name_is_said_before_the_training(tmp_path):
    registry = Registry.make(tmp_path / "project")
    inside = registry.folder / "my models"
    inside.mkdir()
    shutil.copy(registry.folder / "params.yaml", inside)
    with pytest.raises(InputError, match="'my models"):
        check(Worktree("a", "HEAD", Project.find(inside)), "one", None, pushed=False)


@pytest.mark.slow
def test_a_remote_that_does_not_answer(tmp_path, monkeypatch):
    """The run hung for ever, after its training."""
    registry = Registry.make(tmp_path / "project")
    ssh = tmp_path / "ssh"
    ssh.write_text("#!/bin/sh\nexec sleep 600\n")
    ssh.chmod(0o755)
    monkeypatch.setenv("GIT_SSH", str(ssh))
    monkeypatch.setenv("GIT_SSH_VARIANT", "ssh")
    monkeypatch.delenv("GIT_SSH_COMMAND", raising=False)
    monkeypatch.setattr(registering, "TRANSFER", 1)
    monkeypatch.setattr(fetched, "PATIENCE", 1)
    registry.git("remote", "add", "origin", "ssh://host/repository")
    with pytest.raises(RunError, match="^git push: did not finish within 1 s$"):
        registered(registry)
    assert registry.tags() == ["one@v1.0.0"]
