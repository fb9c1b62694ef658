"""What a commit has, or has not, or Git cannot read."""

import hashlib
import subprocess

import pytest
from damaged import lose

from tapeline.registry import repository as module
from tapeline.registry.ours import Ours
from tapeline.registry.repository import Repository
from tapeline.runtime.errors import InputError, RunError


def made(top):
    """Return a repository whose project is in a folder of its own."""
    folder = top / "inside"
    folder.mkdir(parents=True)
    (folder / "dvc.lock").write_text("stages: {}\n\n")
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    for command in (["init", "--quiet"], ["add", "--all"], [*who, "commit", "--quiet", "--message", "x"]):
        subprocess.run(["git", *command], cwd=top, check=True)
    return Repository(folder)


@pytest.fixture
def repository(tmp_path):
    return made(tmp_path)


def test_a_run_is_found_in_its_commit_whatever_a_log_shows_to_people(repository):
    git = repository.git
    for key, value in {"log.showSignature": "true", "trailer.separators": "=", "format.pretty": "fuller"}.items():
        git("config", key, value)
    signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n eA==\n -----END PGP SIGNATURE-----"
    raw = f"tree {git('rev-parse', 'HEAD^{tree}')}\nauthor t <t> 1 +0000\ncommitter t <t> 1 +0000\n{signature}\n\n"
    commit = git("hash-object", "-t", "commit", "-w", "--stdin", given=f"{raw}Run\n\nFlow-run: owl\nFlow-run-id: 1\n")
    assert repository.run(commit, "dvc.lock", "stages") == {"name": "owl", "id": "1"}


def test_a_run_of_another_pipeline_made_another_model(repository):
    git, lock = repository.git, repository.git.folder / "dvc.lock"

    def write(text, *, run=""):
        lock.write_text(text)
        trailers = f"\n\nFlow-run: {run}\nFlow-run-id: 1" if run else ""
        who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        git(*who, "commit", "--quiet", "--all", "--message", f"x{trailers}")

    write("one: 11\ntwo: 21\n", run="owl")
    write("one: 12\ntwo: 21\n")
    git("switch", "--quiet", "--create", "side")
    write("one: 12\ntwo: 22\n", run="hen")
    assert repository.run("HEAD", "dvc.lock", "12") == {}
    assert repository.run("HEAD", "dvc.lock", "22") == {"name": "hen", "id": "1"}
    assert repository.run("HEAD~2", "dvc.lock", "11") == {"name": "owl", "id": "1"}
    write("one: 11\ntwo: 22\n")
    assert repository.run("HEAD", "dvc.lock", "11") == {}, "made anew by hand"


@pytest.mark.parametrize("name", ["a\nb", "a\n", "a\u2028b"])
def test_a_line_break_in_the_path(tmp_path, name):
    repository = made(tmp_path / name)
    assert (repository.top, repository.inside) == (tmp_path / name, "inside")
    assert repository.common == tmp_path / name / ".git"


@pytest.mark.parametrize("name", [".inside", "..inside"])
def test_a_folder_whose_name_begins_with_a_dot(tmp_path, name):
    """Of `.inside` the settings were read from its sibling `inside`."""
    made(tmp_path)
    (tmp_path / "inside" / "dvc.lock").write_text("stages: {}\n")
    repository = Repository((tmp_path / "inside").rename(tmp_path / name))
    repository.git("add", "--all")
    repository.git("-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "--quiet", "--message", "x")
    assert (repository.inside, repository.read("HEAD", "dvc.lock")) == (name, "stages: {}")
    assert Repository(tmp_path).inside == ""


def test_the_md5_of_each_file_of_a_folder(repository, monkeypatch):
    """DVC's, by few calls of Git: also of names with a line feed and of an empty file; none of a link."""
    folder = repository.git.folder / "code [1]"
    folder.mkdir()
    files = {"a": b"1\n", "b\nc": b"", "d": b"\n2 blob 7\n", "same": b"1\n"}
    for name, content in files.items():
        (folder / name).write_bytes(content)
    (folder / "link").symlink_to("a")
    (repository.git.folder / "code 1").write_text("another")
    repository.git("add", "--all")
    repository.git("-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "--quiet", "--message", "x")
    found = repository.digests("HEAD", "inside/code [1]")
    assert found == {f"inside/code [1]/{name}": hashlib.md5(content).hexdigest() for name, content in files.items()}
    link = "inside/code [1]/link"
    assert repository.tracked("HEAD") == {
        **dict.fromkeys(["inside/code 1", "inside/dvc.lock", *found], "100644"),
        link: module.LINK,
    }
    assert all(repository.digest("HEAD", name) == md5 for name, md5 in found.items() if "\n" not in name)
    calls, read = [], repository.git.contents
    monkeypatch.setattr(repository.git, "contents", lambda names: calls.append(len(names)) or read(names))
    monkeypatch.setattr(module, "AT_ONCE", 1)
    assert repository.digests("HEAD", "inside/code [1]") == found
    assert len(calls) > 1 and sum(calls) == len(found)
    lose(repository.top, "HEAD:inside/code [1]/d")
    with pytest.raises(RunError, match="git cat-file: [0-9a-f]{40} missing"):
        repository.digests("HEAD", "inside/code [1]")


def test_names_that_have_a_line_break_of_unicode(repository):
    """Anybody may push them; Git refuses only those of ASCII."""
    repository.git("-c", "user.name=t", "-c", "user.email=t@example.org", "tag", "-a", "-m", "x", "a\u2028b")
    assert repository.tag_names() == ["a\u2028b"]
    assert [name for name, _ in repository.tag_times()] == ["a\u2028b"]
    assert repository.tag_objects() == [("a\u2028b", repository.git("rev-parse", "refs/tags/a\u2028b"))]
    assert [tag.name for tag in repository.tags("refs/tags/*")] == ["a\u2028b"]


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


def test_a_run_whose_branch_looks_like_two_is_not_merged(repository):
    git = repository.git
    commit = git.commit("another", tree=git("rev-parse", "HEAD^{tree}"), parent=repository.head)
    git("update-ref", "refs/heads/runs/a\u2028refs/heads/b", commit)
    (git.folder / "params.yaml").write_text("datasets: {}\npipelines: {}\n")
    assert not Ours(git.folder, "one").merged(commit)
    git("update-ref", "refs/heads/b", commit)
    assert Ours(git.folder, "one").merged(commit)
