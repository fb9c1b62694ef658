import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from disks import files_of_at_most, link_to_a_device, unix_socket

from tapeline.runtime import files, forks
from tapeline.runtime.errors import InputError

KILLED = """
import os, signal, sys
from pathlib import Path
from tapeline.runtime import files

with files.replacing(Path(sys.argv[1])) as folder:
    (folder / "new").write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_sha256_is_that_of_the_bytes(tmp_path: Path) -> None:
    content = os.urandom(3_000_000)
    (tmp_path / "x").write_bytes(content)
    assert files.sha256(tmp_path / "x") == hashlib.sha256(content).hexdigest()


def test_json_depends_on_the_value_only() -> None:
    expected = '{\n  "a": [\n    1,\n    2.5\n  ],\n  "é": null\n}\n'
    assert files.canonical_json({"é": None, "a": [1, 2.5]}) == expected
    assert files.canonical_json({"a": (1, 2.5), "é": None}) == expected


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_json_has_no_nan(value: float) -> None:
    with pytest.raises(ValueError, match="Out of range float values are not JSON compliant"):
        files.canonical_json({"loss": value})


def test_a_file_is_written_with_its_folders(tmp_path: Path) -> None:
    files.write_text(tmp_path / "a" / "b" / "x.txt", "Grüße\n")
    assert (tmp_path / "a" / "b" / "x.txt").read_bytes() == "Grüße\n".encode()
    assert names(tmp_path / "a" / "b") == ["x.txt"]
    files.write_json(tmp_path / "x.json", {"b": 1, "a": 2})
    assert (tmp_path / "x.json").read_text() == '{\n  "a": 2,\n  "b": 1\n}\n'


def test_a_new_state_folder_keeps_itself_out_of_git(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    files.make_folder(tmp_path / "project" / ".tapeline" / "checkpoints" / "digits")
    (tmp_path / "project" / ".tapeline" / "checkpoints" / "digits" / "state").write_text("large")
    answer = subprocess.run(["git", "status", "--short"], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert answer.stdout == ""


def test_a_file_is_replaced_not_written_into(tmp_path: Path) -> None:
    path = tmp_path / "x"
    files.write_bytes(path, b"old")
    with path.open("rb") as reader:
        files.write_bytes(path, b"new")
        assert reader.read() == b"old"
    assert path.read_bytes() == b"new"


def test_writers_of_one_file_take_turns(tmp_path: Path) -> None:
    """They shared a half-written file: half of the writes failed, and some that did not were torn."""
    path, each = tmp_path / "x", 200
    files.write_bytes(path, b"a" * 20_000)
    with ThreadPoolExecutor() as writers:
        writing = [writers.submit(files.write_bytes, path, one * 20_000) for _ in range(each) for one in (b"a", b"b")]
        while not all(one.done() for one in writing):
            content = path.read_bytes()
            assert len(content) == 20_000 and len(set(content)) == 1
    assert [one.exception() for one in writing] == [None] * len(writing)
    assert names(tmp_path) == ["x"]


def test_a_child_forked_while_a_file_is_written_keeps_nobody_waiting(tmp_path: Path, monkeypatch) -> None:
    """It has the descriptor of the half-written file, and with it the lock, as long as it lives."""
    go_on, stop = os.pipe()

    def fork_and_flush(descriptor: int) -> None:
        monkeypatch.undo()
        other = writer.submit(files.write_bytes, tmp_path / "x", b"second")
        others.append(other)
        time.sleep(0.2)  # until it waits for this one
        if forks.fork() == 0:
            os.close(stop)
            os.read(go_on, 1)
            os._exit(0)

    others: list[Future[None]] = []
    with ThreadPoolExecutor(1) as writer:
        monkeypatch.setattr(os, "fsync", fork_and_flush)
        files.write_bytes(tmp_path / "x", b"first")
        try:
            others[0].result(timeout=30)
        finally:
            os.close(stop)
            os.wait()
            os.close(go_on)
    assert (tmp_path / "x").read_bytes() == b"second"


def test_a_disk_that_is_full_on_the_way_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "x"
    files.write_bytes(path, b"old")
    with files_of_at_most(1000), pytest.raises(OSError, match="File too large"):
        files.write_bytes(path, bytes(100_000))
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["x"]


def test_a_tree_is_flushed_from_its_files_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/file").touch()
    flushed: list[str] = []
    monkeypatch.setattr(files, "sync", lambda path: flushed.append(str(path.relative_to(tmp_path))))
    files.sync_tree(tmp_path)
    assert flushed == ["a/b/file", "a/b", "a", "."]


def test_a_folder_that_its_file_system_cannot_flush_is_left() -> None:
    files.sync(Path("/proc"))
    with pytest.raises(OSError, match="Invalid argument"):
        files.sync(Path("/proc/self/status"))


def test_a_lock_that_cannot_be_had_is_named(tmp_path: Path) -> None:
    descriptor = files.locked(tmp_path / "lock", os.O_WRONLY | os.O_CREAT)
    with pytest.raises(BlockingIOError) as error:
        files.locked(tmp_path / "lock", os.O_WRONLY)
    os.close(descriptor)
    assert error.value.filename == str(tmp_path / "lock")


def test_a_folder_is_replaced_as_a_whole(tmp_path: Path) -> None:
    out = tmp_path / "a" / "out"
    with files.replacing(out) as folder:
        (folder / "old").touch()
    with files.replacing(out) as folder:
        assert names(folder) == []
        (folder / "new").touch()
        assert names(out) == ["old"]
    assert names(out) == ["new"]
    assert names(tmp_path / "a") == ["out"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_failure_leaves_the_old_folder(tmp_path: Path, error: type[BaseException]) -> None:
    out = tmp_path / "out"
    with files.replacing(out) as folder:
        (folder / "old").write_text("whole")
    with pytest.raises(error), files.replacing(out) as folder:
        (folder / "new").write_text("half")
        raise error
    assert (out / "old").read_text() == "whole"
    assert names(out) == ["old"]
    assert names(tmp_path) == ["out"]


def test_a_failure_leaves_nothing_where_nothing_was(tmp_path: Path) -> None:
    with pytest.raises(ValueError), files.replacing(tmp_path / "out") as folder:
        (folder / "new").touch()
        raise ValueError
    assert names(tmp_path) == []
    with pytest.raises(ValueError), files.replacing(tmp_path / "out") as folder:
        folder.rmdir()  # what went wrong is told, and not that there was nothing to remove
        raise ValueError
    assert names(tmp_path) == []


def test_a_kill_in_the_middle_leaves_the_old_folder_and_the_next_call_tidies_up(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with files.replacing(out) as folder:
        (folder / "old").write_text("whole")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    killed = subprocess.run([sys.executable, "-c", KILLED, str(out)], env=environment, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert names(out) == ["old"]
    assert (out / "old").read_text() == "whole"
    assert len(names(tmp_path)) == 2
    with files.replacing(out) as folder:
        assert names(folder) == []
        (folder / "next").touch()
    assert names(tmp_path) == ["out"]
    assert names(out) == ["next"]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("make", [os.mkfifo, unix_socket, link_to_a_device])
@pytest.mark.parametrize("read", [files.read_bytes, files.sha256, files.sha256_of_tree])
def test_what_is_no_file_is_refused_and_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None], read: Callable[[Path], object]
) -> None:
    monkeypatch.chdir(tmp_path)  # the name of a socket is short
    make(Path("x"))
    with pytest.raises(InputError, match="^x is a FIFO, a socket or a device, not a file: give a file, or remove it$"):
        read(Path("x"))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("make", [os.mkfifo, unix_socket, link_to_a_device])
@pytest.mark.parametrize("where", ["x", "a/b/x"])
def test_a_tree_is_searched_for_what_is_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None], where: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a" / "b").mkdir(parents=True)
    make(Path(where))
    with pytest.raises(InputError, match=f"^{where} is a FIFO, a socket or a device, not a file"):
        files.check_tree(Path(where.partition("/")[0]))


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        files.read_bytes(tmp_path)
    with pytest.raises(FileNotFoundError):
        files.read_bytes(tmp_path / "none")


def test_what_is_no_name(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for name, said in (
        ("x" * 300, "File name too long"),
        ("a/b", "Not a directory"),
        ("loop", "Too many"),
        ("\0", "null"),
    ):
        with pytest.raises(InputError, match=f"is not a file name: .*{said}") as raised:
            files.read_bytes(tmp_path / name)
        assert str(raised.value).isprintable()


@pytest.mark.parametrize("cut", ["mkdir", "rename"])
def test_a_state_folder_whose_making_is_cut_is_not_left_without_its_gitignore(tmp_path: Path, cut: str) -> None:
    """It was visible to Git from then on, with the password of the server."""

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Path if cut == "rename" else files, cut if cut == "rename" else "write_text", killed)
        files.make_folder(tmp_path / ".tapeline" / "prefect")
    assert not (tmp_path / ".tapeline").exists()
    files.make_folder(tmp_path / ".tapeline" / "prefect")
    assert (tmp_path / ".tapeline" / ".gitignore").read_text() == "*\n"
    assert names(tmp_path) == [".tapeline"]


def test_processes_that_make_one_state_folder_meet_in_it(tmp_path: Path) -> None:
    with ThreadPoolExecutor() as makers:
        list(makers.map(lambda n: files.make_folder(tmp_path / ".tapeline" / str(n)), range(50)))
    assert names(tmp_path) == [".tapeline"]
    assert names(tmp_path / ".tapeline") == sorted([".gitignore", *map(str, range(50))])


def test_an_old_folder_that_cannot_be_removed_is_said_and_nothing_is_replaced() -> None:
    """In a process without root's rights, as another user's command has left it."""
    program = """
import os, sys
from pathlib import Path
from tapeline.runtime import files
from tapeline.runtime.errors import InputError
folder = Path(sys.argv[1])
if os.geteuid() == 0:
    os.seteuid(65534)
try:
    with files.replacing(folder / "out") as made:
        (made / "new").touch()
except InputError as error:
    print(error)
"""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        inner = folder / ".out.old.partial" / "inner"
        inner.mkdir(parents=True)
        (inner / "file").touch()
        (folder / "out").mkdir()
        for path, mode in ((inner, 0o500), (folder, 0o777), (folder / "out", 0o777)):
            path.chmod(mode)
        done = subprocess.run([sys.executable, "-c", program, name], capture_output=True, text=True, check=False)
        left = sorted(path.name for path in folder.iterdir())
        inner.chmod(0o700)
    assert done.stdout.startswith(f"{folder}/.out.old.partial is of an earlier run, perhaps another user's"), (
        done.stderr
    )
    assert left == [".out.old.partial", "out"]
