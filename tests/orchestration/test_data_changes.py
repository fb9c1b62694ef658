"""What counts as a change of data: what a commit has under the path that a dataset needs, and the dataset's settings."""

import subprocess

import pytest
from damaged import lose
from ruamel.yaml import YAML

from tapeline.config.project import Project
from tapeline.orchestration.data_changes import tell_changes, versions
from tapeline.repository.git import Git
from tapeline.runtime.errors import InputError, RunError


@pytest.fixture
def repository(tmp_path):
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    return tmp_path


def commit(folder, files, datasets):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    with (folder / "params.yaml").open("w") as file:
        YAML().dump({"datasets": datasets}, file)
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run(["git", "add", "-A"], cwd=folder, check=True)
    subprocess.run(["git", *who, "commit", "-qm", "x", "--allow-empty"], cwd=folder, check=True)
    return versions(Git(folder), "HEAD")


@pytest.mark.parametrize(
    ("needs", "file"),
    [
        ("data/raw/a.csv", "data/raw/a.csv"),
        ("data/raw/a.csv", "data/raw/a.csv.dvc"),
        ("data/raw/photos/small", "data/raw/photos.dvc"),
        ("src/builders", "src/builders/one.py"),
    ],
)
def test_data_are_seen_wherever_git_knows_them(repository, needs, file):
    datasets = {"a": {"needs": needs}, "b": {"needs": "b.csv"}}
    first = commit(repository, {file: "1", "b.csv": "1"}, datasets)
    assert commit(repository, {"note.txt": "other"}, datasets) == first
    second = commit(repository, {file: "2"}, datasets)
    assert (second["a"] != first["a"], second["b"]) == (True, first["b"])


def test_data_behind_a_link_in_the_folder_are_seen(repository):
    (repository / "own").mkdir()
    (repository / "own" / "a.csv").symlink_to("../raw/a.csv")
    (repository / "own" / "b.csv").symlink_to("../raw/all/b.csv")
    datasets = {"a": {"needs": "own"}, "b": {"needs": "raw/c.csv"}}
    first = commit(repository, {"own/own.py": "1", "raw/a.csv": "1", "raw/all.dvc": "1"}, datasets)
    assert commit(repository, {"raw/d.csv": "1"}, datasets) == first
    seen = {first["a"]}
    for name in ("raw/a.csv", "raw/all.dvc", "own/own.py"):
        now = commit(repository, {name: "2"}, datasets)
        assert now["b"] == first["b"]
        seen.add(now["a"])
    assert len(seen) == 4


def test_a_dataset_s_settings_are_its_data_too(repository):
    first = commit(repository, {}, {"a": {"needs": "a.csv", "validation": 0.1}})
    assert commit(repository, {}, {"a": {"validation": 0.1, "needs": "a.csv"}}) == first
    assert commit(repository, {}, {"a": {"needs": "a.csv", "validation": 0.2}}) != first


def test_a_commit_without_datasets_is_said(repository):
    with pytest.raises(InputError, match=r"has no params\.yaml with datasets: give a ref that has them"):
        commit(repository, {}, {})


def test_a_file_that_git_cannot_read_is_no_missing_one(repository):
    commit(repository, {}, {"a": {"needs": "a.csv"}})
    lose(repository, "HEAD:params.yaml")
    with pytest.raises(RunError, match="git cat-file: .*"):
        versions(Git(repository), "HEAD")


@pytest.mark.parametrize("name", ["../../.git/HEAD", "/etc/passwd", "", 2024, "a" * 50 + "/"])
def test_a_name_that_is_none_is_refused_before_a_file_is_called_by_it(repository, name):
    """Whoever could commit `params.yaml` could have any file of this user written over."""
    with pytest.raises(InputError, match="is not a name of a dataset: use lower-case letters") as refused:
        commit(repository, {}, {"a": {"needs": "a.csv"}, name: {"needs": "x"}})
    assert repr(name) in str(refused.value)


def test_a_commit_is_looked_at_once(repository):
    """`tapeline serve` looks every ten seconds, and each look took several processes for each dataset."""
    subprocess.run(["git", "checkout", "-q", "-b", "main"], cwd=repository, check=True)
    (repository / ".gitignore").write_text(".tapeline\n")
    datasets = {"a": {"needs": "a.csv"}}
    commit(repository, {"a.csv": "1"}, datasets)
    project = Project.find(repository)
    assert list(tell_changes(None, project)) == []
    lose(repository, "HEAD:params.yaml")
    assert list(tell_changes(None, project)) == []
    commit(repository, {"b.csv": "1"}, {**datasets, "b": {"needs": "b.csv"}})
    assert list(tell_changes(None, project)) == []
    assert {path.name for path in (project.shared / "data-seen" / "@main").iterdir()} == {".commit", "a", "b"}


def test_each_ref_is_compared_with_itself(repository):
    """A cron job with `--ref` beside `tapeline serve` had both report, at each look, what differs between the two."""
    (repository / ".gitignore").write_text(".tapeline\n")
    subprocess.run(["git", "checkout", "-q", "-b", "main"], cwd=repository, check=True)
    commit(repository, {"a.csv": "1"}, {"main": {"needs": "a.csv"}})
    subprocess.run(["git", "checkout", "-q", "-b", "data/next"], cwd=repository, check=True)
    commit(repository, {"a.csv": "2"}, {"main": {"needs": "a.csv"}})
    project = Project.find(repository)
    for ref in ("main", "data/next") * 2:
        assert list(tell_changes(None, project, ref=ref)) == []
