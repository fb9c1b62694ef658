"""What `verify` and `upgrade` share: no process stays behind, and no hash leads to a file outside of DVC's cache."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import waiting
from repositories import Repository, called, git
from surroundings import below

from tapeline.config.project import Project
from tapeline.repository.rebuilding import Cached, Out, clone, first_difference
from tapeline.runtime.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore:_NoneStep.value:DeprecationWarning")  # dvc-data, of pygtrie

SECRET = "another's words"


@pytest.mark.parametrize("altered", ["lock", "listing"])
def test_a_hash_that_is_a_path(tmp_path, altered):
    folder = tmp_path / "it"
    folder.mkdir()
    for command in (["git", "init", "--quiet"], [sys.executable, "-m", "dvc", "init", "--quiet"]):
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    cached = Cached(folder)
    path = f"..//{secret}"  # the first two letters are a folder of the cache, and the rest was absolute
    out = Out("data", path)
    if altered == "listing":
        out = Out("data", "a" * 32 + ".dir")
        listing = cached.place(out.md5)
        listing.parent.mkdir(parents=True)
        listing.write_text(json.dumps([{"relpath": "x", "md5": path}]))
    (folder / "data").mkdir()
    with pytest.raises(
        InputError, match="is not an MD5: dvc.lock, or a folder's list in the cache, was altered"
    ) as said:
        first_difference(out, cached, folder)
    assert SECRET not in str(said.value)


@pytest.mark.parametrize(
    ("recorded", "rebuilt", "said"),
    [
        ("a", "", "a is only in the record"),
        ("a/x", "", "a/x is only in the record"),
        ("a/x", "a/", "a/x is only in the record"),
        ("a", "a/x", "a is only in the record"),
        ("a/x", "a", "a is only in the rebuild"),
        ("a/x", "a/x a/y", "a/y is only in the rebuild"),
    ],
)
def test_what_only_one_side_has(tmp_path, recorded, rebuilt, said):
    for side, names in (("one", recorded), ("two", rebuilt)):
        for name in names.split():
            path = tmp_path / side / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.mkdir() if name.endswith("/") else path.touch()
    assert first_difference(Out("a", "1" * 32), lambda out: tmp_path / "one" / out.path, tmp_path / "two") == said


def test_a_dvc_repository_that_git_does_not_have(tmp_path):
    """DVC takes one around a submodule, or around any repository inside another."""
    outer = Repository(tmp_path / "outer")
    inner = outer.folder / "inner"
    inner.mkdir()
    outer.git("init", "--quiet", "inner")
    (inner / "params.yaml").touch()
    with pytest.raises(
        InputError, match=r"inner has no DVC repository inside its Git repository: `tapeline init` makes"
    ):
        clone(Project.find(inner), tmp_path / "clone")
    assert not (tmp_path / "clone").exists()


@pytest.mark.parametrize("place", ["", "sub"])
def test_a_clone_has_the_dvc_repository_of_the_project(tmp_path, place):
    git(tmp_path, "init", "--quiet", "it")
    folder = tmp_path / "it" / place
    folder.mkdir(exist_ok=True)
    called(folder, sys.executable, "-m", "dvc", "init", "--quiet", *(["--subdir"] if place else []))
    (folder / "params.yaml").touch()
    git(folder, "add", ".")
    git(folder, "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "--quiet", "--message", "one")
    made = clone(Project.find(folder), tmp_path / "clone")
    assert made == tmp_path / "clone" / place
    assert Cached(made).place("a" * 32) == Cached(folder).place("a" * 32)


def test_a_clone_of_a_partial_and_sparse_one_is_whole(tmp_path):
    """Git had nowhere to fetch the files from that the checkout leaves out."""
    origin = tmp_path / "origin"
    for name in ("sub/params.yaml", "sub/.dvc/config", "other/large"):
        (origin / name).parent.mkdir(parents=True, exist_ok=True)
        (origin / name).touch()
    (origin / "other" / "large").write_text("large")
    git(origin, "init", "--quiet")
    git(origin, "config", "uploadpack.allowFilter", "true")
    git(origin, "config", "uploadpack.allowAnySHA1InWant", "true")
    git(origin, "add", ".")
    git(origin, "-c", "user.name=t", "-c", "user.email=t@example.org", "commit", "--quiet", "--message", "one")
    git(tmp_path, "clone", "--quiet", "--filter=blob:none", "--sparse", origin.as_uri(), "it")
    git(tmp_path / "it", "sparse-checkout", "set", "sub")
    assert not (tmp_path / "it" / "other").exists()
    assert clone(Project.find(tmp_path / "it" / "sub"), tmp_path / "clone") == tmp_path / "clone" / "sub"
    assert (tmp_path / "clone" / "other" / "large").read_text() == "large"


# Another program's trainer: one process that the shell waits for, one beside it, one in a session of its own.
TRAINER = "(sleep 1001 & setsid sleep 1002 & sleep 1003; true)"
SOURCE = Path(__file__).parents[2] / "src"
VERIFY = ["-m", "tapeline", "verify", "one"]
AS_UPGRADE = """
from pathlib import Path
from tapeline.repository.rebuilding import dvc
dvc(Path(), "repro", "--quiet", "--force", "--single-item", "train@one")
"""


@pytest.mark.slow
@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("arguments", [VERIFY, ["-c", AS_UPGRADE]], ids=["verify", "upgrade"])
def test_a_command_of_another_program_ends_with_what_rebuilds(tmp_path, arguments, signum):
    repository = Repository(tmp_path / "it", train=f"test ! -e {tmp_path}/again || (touch {tmp_path}/made; {TRAINER})")
    (tmp_path / "again").touch()  # it ended by itself when it was recorded
    command = [sys.executable, "-P", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "TMPDIR": str(tmp_path)}
    try:
        with subprocess.Popen(command, cwd=repository.folder, env=environment) as process:
            waiting.until((tmp_path / "made").exists, limit=120)
            assert len(below(tmp_path)) > 5, "this process, DVC, the shells and what they run"
            process.send_signal(signum)
        waiting.until(lambda: not below(tmp_path), limit=10)
    finally:
        for left in below(tmp_path):
            left.kill()
