"""`tapeline repair` repairs what DVC leaves when it is killed, and leaves alone what a living process holds."""

import errno
import fcntl
import json
import os
import subprocess
import sys
import threading
from secrets import token_urlsafe

import pytest
from dvc.lock import make_lock
from repositories import PARAMS, Repository

from tapeline.config.params import Params
from tapeline.config.project import Project
from tapeline.repository import lock_merge
from tapeline.repository.doctor import examine
from tapeline.repository.dvc_lock import Lock
from tapeline.repository.git import Git
from tapeline.repository.listing import entries
from tapeline.repository.repair import is_whole, merge, repair
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


@pytest.mark.first(2)
@pytest.mark.parametrize("content", ["", "{", '{"write": {"data', '{"write": {"x": {"pid": 1}}}', "[]", "null"])
def test_a_cut_rwlock(repository, rwlock, content):
    rwlock.write_text(content)
    assert repaired(repository) == [f"{rwlock}: was truncated; emptied it"]
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
        assert repaired(repository) == [f"{rwlock}: cleared the entries of processes that no longer exist"]
    finally:
        living.communicate(b"\n")
    kept = json.loads(rwlock.read_text())
    rwlock.write_text("{}")
    assert kept == {"write": {"living": holders["living"]}, "read": {"a": [holders["living"]]}}


def test_a_dvc_that_runs_and_a_disk_without_locks_are_told_apart(repository, rwlock, monkeypatch):
    """DVC says the same of both, with the colours of a terminal."""

    def unknown(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    guard = rwlock.with_name("rwlock.lock")
    lock = make_lock(str(guard), tmp_dir=str(guard.parent))
    with lock, pytest.raises(RunError, match="is held by another DVC: run again when that has ended$"):
        repaired(repository)
    monkeypatch.setattr(fcntl, "flock", unknown)
    with pytest.raises(OSError, match="No locks available"):
        repaired(repository)


def test_a_lock_that_is_a_hard_link_is_seen(repository, rwlock):
    local = repository.folder / ".dvc" / "config.local"
    local.write_text("[core]\nhardlink_lock = true\n")
    rwlock.write_text("{")
    guard = rwlock.with_name("rwlock.lock")
    guard.unlink(missing_ok=True)  # of the other kind, for which DVC itself waits in vain
    lock = make_lock(str(guard), tmp_dir=str(guard.parent), hardlink_lock=True)
    with lock, pytest.raises(RunError, match="held by another DVC"):
        repaired(repository)
    assert repaired(repository) == [f"{rwlock}: was truncated; emptied it"]
    local.unlink()


def test_what_dvc_left_on_a_full_disk_goes_and_what_is_ours_stays(repository):
    beside = repository.folder / "models"
    ours = beside / ".notes.tmp"
    probe, full = (beside / f".{token_urlsafe(16)}.tmp" for _ in range(2))
    for path, content in ((probe, ""), (ours, ""), (full, "mine")):
        path.write_text(content)
    lock = make_lock(str(repository.folder / ".dvc/tmp/lock"), tmp_dir=str(repository.folder / ".dvc/tmp"))
    with lock, pytest.raises(RunError, match="held by another DVC"):
        repaired(repository)
    assert probe.exists()
    assert repaired(repository) == [f"{probe}: removed; DVC left it when it tested links on a full disk"]
    assert ours.exists() and full.read_text() == "mine"
    ours.unlink()
    full.unlink()


@pytest.mark.parametrize("after", [b"", b"sch", b"stages:\n  ingest", b"deps:\n    - pa"])
def test_a_cut_dvc_lock_is_the_committed_one_again(repository, after):
    path = repository.folder / "dvc.lock"
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.index(after) + len(after)])
    (line,) = repaired(repository)
    assert "was truncated; restored the committed one" in line
    assert path.read_bytes() == whole


def test_a_dvc_lock_that_a_live_dvc_is_writing_stays(repository):
    """It was replaced by the committed one, without the records of what was built since."""
    path, folder = repository.folder / "dvc.lock", repository.folder / ".dvc" / "tmp"
    whole = path.read_bytes()
    written = whole.replace(b"size: ", b"size: 1", 1)
    lock = make_lock(str(folder / "lock"), tmp_dir=str(folder))

    def end():
        path.write_bytes(written)
        lock.unlock()

    lock.lock()
    path.write_bytes(written[:100])
    writer = threading.Timer(0.2, end)
    writer.start()
    try:
        assert repaired(repository) == [] and path.read_bytes() == written
        path.write_bytes(written[:100])
        with lock, pytest.raises(RunError, match="held by another DVC"):
            repaired(repository)
        assert path.read_bytes() == written[:100]
    finally:
        writer.join()
        path.write_bytes(whole)


def test_a_cut_dvc_lock_in_a_clone_in_which_no_dvc_has_run(repository, tmp_path):
    clone = tmp_path / "clone"
    Git(tmp_path)("clone", "--quiet", str(repository.folder), str(clone))
    path = clone / "dvc.lock"
    whole = path.read_bytes()
    path.write_bytes(whole[:100])
    (line,) = repair(Project.find(clone))
    assert "was truncated; restored the committed one" in line and path.read_bytes() == whole


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
            assert "was truncated; restored the committed one" in line and path.read_bytes() == whole
        other = readable[-1].replace(b"recipe.py", b"other.py")  # another command wrote this one
        path.write_bytes(other)
        assert repaired(repository) == [] and path.read_bytes() == other
    finally:
        path.write_bytes(whole)


def test_an_earlier_dvc_lock_that_somebody_has_put_back_stays(tmp_path):
    """The next pipeline's stages come after it: it is how the committed one begins."""
    repository = Repository(tmp_path)
    path = tmp_path / "dvc.lock"
    whole = path.read_bytes()
    first = next(end for end in range(100, len(whole)) if is_whole(whole[:end]))
    for content in (whole[:first], whole):
        path.write_bytes(content)
        repository.git("add", "dvc.lock")
        repository.git("commit", "--quiet", "--allow-empty", "--message", "more")
    repository.git("restore", "--source", "HEAD~1", "dvc.lock")
    assert repaired(repository) == [] and path.read_bytes() == whole[:first]


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
    assert "removed it" in repaired(repository)[0]
    repository.dvc("repro", "--quiet", "export@one")
    assert path.read_bytes() == whole


def test_the_dvc_lock_of_another_project_far_down(repository):
    """A dataset of it may be what a pipeline here needs, so that `dvc repro` here writes it."""
    folder = repository.folder / "projects" / "deep" / "other"
    folder.mkdir(parents=True)
    (folder / "dvc.yaml").write_text("stages: {}\n")
    (folder / "dvc.lock").write_text("schema: '2.0'\nstages: {}\n")
    repository.git("add", "projects")
    repository.git("commit", "--quiet", "--message", "other")
    (folder / "dvc.lock").write_text("schema: '2")
    (line,) = repaired(repository)
    assert line.startswith(f"{folder / 'dvc.lock'}: was truncated; restored the committed one")
    repository.git("rm", "-r", "--quiet", "projects")
    repository.git("commit", "--quiet", "--message", "without")
    assert repaired(repository) == []


IDENTITY = ("-c", "user.name=Test", "-c", "user.email=test@example.org")
OTHERS = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")


@pytest.fixture
def of_another_user(tmp_path, monkeypatch):
    """A repository that Git refuses to read."""
    repository = Repository(tmp_path)
    monkeypatch.delenv("SUDO_UID", raising=False)
    for path in (tmp_path, tmp_path / ".git"):
        os.chown(path, 65534, 65534)
    return repository


@pytest.mark.first(1)
@OTHERS
@pytest.mark.parametrize("end", [100, -1])
def test_a_dvc_lock_in_a_repository_that_git_refuses_is_left_as_it_is(of_another_user, end):
    """It was taken for one that was never committed, and removed."""
    path = of_another_user.folder / "dvc.lock"
    path.write_bytes(cut := path.read_bytes()[:end])
    said = f"{path} was truncated and left as it is, since the committed one cannot be read: .*: fatal: detected dubious ownership.*: `git config .*` helps$"
    with pytest.raises(RunError, match=said):
        repaired(of_another_user)
    assert path.read_bytes() == cut


@OTHERS
def test_a_whole_dvc_lock_in_a_repository_that_git_refuses_is_said(of_another_user):
    (line,) = repaired(of_another_user)
    assert "dvc.lock: not compared with the committed one: git rev-parse: fatal: detected dubious ownership" in line


def entry(md5):
    return (
        f"    cmd: make\n    outs:\n    - path: out\n      hash: md5\n      md5: {md5 * 32}\n      size: {ord(md5)}\n"
    )


def lock_of(**stages):
    written = "".join(f"  {name.replace('_', '@')}:\n{entry(md5)}" for name, md5 in stages.items())
    return f"schema: '2.0'\nstages:\n{written}"


SIDES = {
    "main": lock_of(train_one="a", export_one="b"),
    "mine": lock_of(train_one="a", export_one="c"),
    "colleague": lock_of(train_one="a", export_one="b", train_two="d"),
    "other": lock_of(train_one="e", export_one="d", train_two="d"),
}
"""The `dvc.lock` of each branch; all but the first start from `main`."""


@pytest.fixture(scope="module")
def two_sides(tmp_path_factory):
    """A Git repository with a project at its top and one in a folder, whose branches record other stages."""
    top = tmp_path_factory.mktemp("two_sides")
    git = Git(top)
    git("init", "--quiet", "--initial-branch=main")
    (top / ".dvc").mkdir()
    (top / "sub").mkdir()
    for folder in (top, top / "sub"):
        (folder / "params.yaml").write_text(PARAMS)
        (folder / "dvc.yaml").write_text("stages: {}\n")
    for branch, text in SIDES.items():
        git("checkout", "--quiet", *(["-b", branch, "main"] if branch != "main" else ["--orphan", "main"]))
        for folder in (top, top / "sub"):
            (folder / "dvc.lock").write_text(text)
        git("add", "--all")
        git(*IDENTITY, "commit", "--quiet", "--message", branch)
    return git


@pytest.fixture(params=[".", "sub"])
def merging(two_sides, request):
    """Return a function that merges a branch into `mine`, and returns the project and its lock, in conflict."""
    project = Project.find(two_sides.folder / request.param)
    two_sides("checkout", "--quiet", "mine")

    def begin(branch):
        assert two_sides.ask(*IDENTITY, "merge", branch) is None
        assert two_sides("diff", "--name-only", "--diff-filter=U").split() == ["dvc.lock", "sub/dvc.lock"]
        return project, project.folder / "dvc.lock"

    yield begin
    two_sides("reset", "--quiet", "--hard")


def test_a_dvc_lock_in_conflict_is_left_and_said(merging):
    """It was taken for a truncated one: HEAD's came in its place, without what the other branch had recorded."""
    project, path = merging("colleague")
    before = path.read_bytes()
    said = r"dvc.lock has a Git merge conflict: `tapeline repair` merges it stage by stage$"
    with pytest.raises(InputError, match=said):
        list(repair(project))
    with pytest.raises(InputError, match=f"^{said}"):
        list(entries(project, Params.load(project.folder)))
    with pytest.raises(InputError, match=f"^{said}"):
        Lock.read(before)
    found = {(finding.what, finding.remedy) for finding in examine(project.folder)}
    assert ("dvc.lock has a Git merge conflict", "`tapeline repair`") in found
    path.write_bytes(before[:100])
    with pytest.raises(InputError, match=r"was truncated in a Git merge: `tapeline repair` merges it"):
        list(repair(project))
    assert path.read_bytes() == before[:100]


@pytest.mark.parametrize("end", [None, 100])
def test_a_dvc_lock_in_conflict_is_merged_by_stage(two_sides, merging, end):
    project, path = merging("colleague")
    path.write_bytes(path.read_bytes()[:end])
    said = [line for line in merge(project) if line.startswith(f"{path}: ")]
    assert said == [
        f"{path}: merged stage by stage; from ours: export@one; from theirs: train@two; `git add dvc.lock` next"
    ]
    assert path.read_text() == lock_of(train_one="a", export_one="c", train_two="d")
    assert list(merge(project)) == list(repair(project)) == []
    two_sides("add", "--all")
    assert list(merge(project)) == list(repair(project)) == []


@pytest.mark.parametrize(("side", "md5"), [("ours", "c"), ("theirs", "d")])
def test_what_both_sides_have_changed_is_left_to_a_choice(two_sides, merging, side, md5):
    project, path = merging("other")
    before = path.read_bytes()
    for _ in range(2):
        with pytest.raises(InputError, match=r"dvc.lock: both sides of the merge changed export@one: `git check"):
            list(merge(project))
    assert path.read_bytes() == before
    two_sides("checkout", f"--{side}", "dvc.lock", "sub/dvc.lock")
    one_side = path.read_text()
    assert list(repair(project)) == [] and path.read_text() == one_side == SIDES["mine" if side == "ours" else "other"]
    said = list(merge(project))
    assert path.read_text() == lock_of(train_one="e", export_one=md5, train_two="d")
    if side == "ours":  # theirs is the whole result
        assert "from theirs: train@one, train@two; changed on both sides, from ours: export@one; `git add" in said[0]
    else:
        assert said == []


def test_marks_that_were_added_as_resolved_are_said(two_sides, merging):
    project, path = merging("colleague")
    two_sides("add", "--all")
    with pytest.raises(InputError, match="`git checkout --merge dvc.lock` restores both sides"):
        list(merge(project))
    two_sides("checkout", "--merge", "dvc.lock", "sub/dvc.lock")
    assert any(line.startswith(f"{path}: merged stage by stage") for line in merge(project))


def test_what_a_side_has_removed_is_gone():
    versions = {
        lock_merge.BASE: lock_of(train_one="a", train_two="b").encode(),
        lock_merge.OURS: lock_of(train_one="c", train_two="b").encode(),
        lock_merge.THEIRS: lock_of(train_one="a").encode(),
    }
    merged = lock_merge.merged(versions, None)
    assert merged == lock_merge.Merged(lock_of(train_one="c"), ("train@one",), ("train@two",), ())


def test_outside_a_repository(tmp_path):
    (tmp_path / "params.yaml").write_text("")
    with pytest.raises(InputError, match="is not in a DVC repository"):
        list(repair(Project.find(tmp_path)))
