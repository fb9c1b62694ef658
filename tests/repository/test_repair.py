"""`tapeline repair` repairs what DVC leaves when it is killed, and leaves alone what a living process holds."""

import json
import os
import subprocess
import sys
from secrets import token_urlsafe

import pytest
from dvc.lock import make_lock
from repositories import Repository

from tapeline.config.project import Project
from tapeline.repository.repair import is_whole, repair
from tapeline.runtime.errors import InputError, RunError


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    return Repository(tmp_path_factory.mktemp("repository"))


@pytest.fixture
def rwlock(repository):
    return repository.folder / ".dvc" / "tmp" / "rwlock"


def repaired(repository):
    return list(repair(Project.find(repository.folder)))


def test_a_healthy_repository_is_not_touched(repository, rwlock):
    before = rwlock.read_bytes(), (repository.folder / "dvc.lock").read_bytes()
    assert repaired(repository) == []
    assert (rwlock.read_bytes(), (repository.folder / "dvc.lock").read_bytes()) == before


@pytest.mark.parametrize("content", ["", "{", '{"write": {"data', '{"write": {"x": {"pid": 1}}}', "[]", "null"])
def test_a_cut_rwlock(repository, rwlock, content):
    rwlock.write_text(content)
    assert repaired(repository) == [f"{rwlock}: was truncated; it has no entries now"]
    repository.dvc("repro", "--quiet", "export@one")


def test_entries_of_the_dead_go_and_those_of_the_living_stay(repository, rwlock):
    living = subprocess.Popen([sys.executable, "-c", "input()", "repro", "export@one"], stdin=subprocess.PIPE)
    dead = subprocess.Popen(["true"])
    dead.wait()
    holders = {
        "living": {"pid": living.pid, "cmd": "/bin/dvc repro export@one"},
        "dead": {"pid": dead.pid, "cmd": "/bin/dvc repro export@one"},
        "reused": {"pid": living.pid, "cmd": "/bin/dvc repro export@two"},
    }
    rwlock.write_text(json.dumps({"write": holders, "read": {"a": list(holders.values()), "b": [holders["dead"]]}}))
    try:
        assert repaired(repository) == [f"{rwlock}: cleared entries of processes that are gone"]
    finally:
        living.communicate(b"\n")
    kept = json.loads(rwlock.read_text())
    rwlock.write_text("{}")
    assert kept == {"write": {"living": holders["living"]}, "read": {"a": [holders["living"]]}}


def test_what_dvc_left_on_a_full_disk_goes_and_what_is_ours_stays(repository):
    beside = repository.folder / "models"
    probe, ours, full = (
        beside / f".{token_urlsafe(16)}.tmp",
        beside / ".notes.tmp",
        beside / f".{token_urlsafe(16)}.tmp",
    )
    for path, content in ((probe, ""), (ours, ""), (full, "mine")):
        path.write_text(content)
    lock = make_lock(str(repository.folder / ".dvc/tmp/lock"), tmp_dir=str(repository.folder / ".dvc/tmp"))
    with lock, pytest.raises(RunError, match="held by another DVC"):
        repaired(repository)
    assert probe.exists()
    assert repaired(repository) == [f"{probe}: removed, DVC tried a link with it on a full disk"]
    assert ours.exists() and full.read_text() == "mine"
    ours.unlink()
    full.unlink()


@pytest.mark.parametrize("after", [b"", b"sch", b"stages:\n  ingest", b"deps:\n    - pa"])
def test_a_cut_dvc_lock_is_the_committed_one_again(repository, after):
    path = repository.folder / "dvc.lock"
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.index(after) + len(after)])
    (line,) = repaired(repository)
    assert "was truncated; it is the committed one again" in line
    assert path.read_bytes() == whole


def test_a_dvc_lock_cut_between_two_stages_is_the_committed_one_again(repository):
    """Such a beginning is a lock by itself: only the committed one tells that more was there."""
    path = repository.folder / "dvc.lock"
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    beginnings = [b"".join(lines[:end]) for end in range(1, len(lines))]
    readable = [beginning for beginning in beginnings if is_whole(beginning)]
    assert len(readable) >= 3  # after each stage but the last
    try:
        for beginning in readable:
            path.write_bytes(beginning)
            (line,) = repaired(repository)
            assert "was truncated; it is the committed one again" in line and path.read_bytes() == whole
        other = readable[-1].replace(b"recipe.py", b"other.py")  # another command wrote this one
        path.write_bytes(other)
        assert repaired(repository) == [] and path.read_bytes() == other
    finally:
        path.write_bytes(whole)


def test_every_cut_of_a_dvc_lock_is_seen_or_harmless(repository):
    """Whatever byte it is cut at: repaired, or DVC reads it and runs the rest again."""
    path = repository.folder / "dvc.lock"
    whole = path.read_bytes()
    try:
        for end in range(0, len(whole), 7):
            path.write_bytes(whole[:end])
            if not repaired(repository):
                repository.dvc("repro", "--quiet", "export@one")
            assert path.read_bytes() == whole, end
    finally:
        path.write_bytes(whole)


def test_a_cut_dvc_lock_that_was_never_committed(tmp_path):
    repository = Repository(tmp_path)
    path = tmp_path / "dvc.lock"
    whole = path.read_bytes()
    repository.git("rm", "--quiet", "--cached", "dvc.lock")
    repository.git("commit", "--quiet", "--message", "without")
    path.write_bytes(whole[:100])
    assert "it is gone" in repaired(repository)[0]
    repository.dvc("repro", "--quiet", "export@one")
    assert path.read_bytes() == whole


OTHERS = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")


@pytest.fixture
def of_another_user(tmp_path, monkeypatch):
    """A repository that Git refuses to read."""
    repository = Repository(tmp_path)
    monkeypatch.delenv("SUDO_UID", raising=False)
    for path in (tmp_path, tmp_path / ".git"):
        os.chown(path, 65534, 65534)
    return repository


@OTHERS
@pytest.mark.parametrize("end", [100, -1])
def test_a_dvc_lock_in_a_repository_that_git_refuses_is_left_as_it_is(of_another_user, end):
    """It was taken for one that was never committed, and removed."""
    path = of_another_user.folder / "dvc.lock"
    path.write_bytes(cut := path.read_bytes()[:end])
    said = f"{path} was truncated, and is left so: .*: fatal: detected dubious ownership.*: `git config .*` helps$"
    with pytest.raises(RunError, match=said):
        repaired(of_another_user)
    assert path.read_bytes() == cut


@OTHERS
def test_a_whole_dvc_lock_in_a_repository_that_git_refuses_is_said(of_another_user):
    (line,) = repaired(of_another_user)
    assert "dvc.lock: not compared with the committed one: git rev-parse: fatal: detected dubious ownership" in line


def test_outside_a_repository(tmp_path):
    (tmp_path / "params.yaml").write_text("")
    with pytest.raises(InputError, match="is in no DVC repository"):
        list(repair(Project.find(tmp_path)))
