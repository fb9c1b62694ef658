"""What a commit has, or has not, or Git cannot read."""

import subprocess

import pytest
from damaged import lose

from tapeline.registry.repository import Repository
from tapeline.runtime.errors import InputError, RunError


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "inside"
    folder.mkdir()
    (folder / "dvc.lock").write_text("stages: {}\n\n")
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    for command in (["init", "--quiet"], ["add", "--all"], [*who, "commit", "--quiet", "--message", "x"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    return Repository(folder)


def test_a_file_that_git_cannot_read_is_no_missing_one(repository):
    assert repository.read("HEAD", "dvc.lock") == "stages: {}\n"
    assert repository.read("HEAD", "params.yaml") is None
    with pytest.raises(InputError, match="commit nowhere has no dvc.lock"):
        repository.recorded("nowhere", "one")
    lose(repository.top, "HEAD:inside/dvc.lock")
    with pytest.raises(RunError, match="git cat-file: "):
        repository.recorded("HEAD", "one")


@pytest.mark.parametrize("message", ["\1boom\n", "a\n\1\n"])
def test_a_message_of_control_characters_is_one_tag_s(repository, message):
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    for name in ("one@v1.0.0", "one@v9.0.0", "zzz"):
        command = ["git", *who, "tag", "--annotate", "--cleanup=verbatim", "--file=-", name]
        subprocess.run(command, cwd=repository.top, input=message, text=True, check=True)
    found = {tag.name: tag.message for tag in repository.tags()}
    assert found == dict.fromkeys(("one@v1.0.0", "one@v9.0.0", "zzz"), message)
