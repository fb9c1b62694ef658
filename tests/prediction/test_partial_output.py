"""A partial output belongs to one call, one user and one process."""

import multiprocessing
import os
from pathlib import Path

import pytest
from disks import files_of_at_most

from tapeline.prediction.partial_output import PartialOutput, check
from tapeline.runtime.errors import InputError, Interrupted, RunError

CALL = {"model": "a", "outputs": ["y"]}


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def opened(out, call=CALL, *, fresh=False, note=print):
    return PartialOutput.opened(out, call, fresh=fresh, note=note)


def stopped(out, error=None, saved=True):
    """Write something, and be stopped."""
    with pytest.raises(type(error or RunError())):
        with opened(out) as partial:
            partial.file("answers").write(b"half")
            if saved:
                partial.save({"examples": 1234})
            raise error or RunError("gone")


@pytest.fixture
def out(tmp_path):
    return tmp_path / "y.csv"


def test_what_is_finished_replaces_the_output_and_leaves_nothing(out):
    out.write_text("old")
    with opened(out) as partial:
        assert partial.saved is None and partial.folder.stat().st_mode & 0o777 == 0o700
        partial.file("answers").write(b"new")
        partial.save({"examples": 1})
        assert out.read_text() == "old"
        partial.finish()
    assert out.read_text() == "new" and names(out.parent) == ["y.csv"]


@pytest.mark.parametrize(
    ("folder", "record"),
    [
        ("data/digits/test", "data/digits/dataset.json"),
        ("models/digits", "models/digits/model.json"),
        ("runs/digits/validate", "runs/digits/validate/verdict.json"),
        ("serving/digits/1/assets", "serving/digits/1/saved_model.pb"),
    ],
)
def test_an_output_that_the_next_build_or_promotion_would_delete_is_refused(tmp_path, folder, record):
    (tmp_path / folder).mkdir(parents=True)
    (tmp_path / record).touch()
    with pytest.raises(InputError, match="which is replaced as a whole: give another folder"):
        check(tmp_path / folder / "y.csv")
    (tmp_path / "data" / "answers").mkdir(parents=True, exist_ok=True)
    check(tmp_path / "data" / "answers" / "y.csv")


def test_answers_that_do_not_reach_the_disk_replace_nothing(out):
    out.write_text("old")
    with pytest.raises(OSError, match="File too large"):
        with opened(out) as partial:
            partial.file("answers").write(b"new" * 500)
            with files_of_at_most(1000):
                partial.finish()
    assert out.read_text() == "old"


@pytest.mark.parametrize("error", [RunError("gone"), OSError(28, "full"), Interrupted("stopped", signum=2)])
def test_the_same_call_continues_after_any_end(out, error):
    said = []
    with pytest.raises(type(error)):
        with opened(out, note=said.append) as partial:
            partial.file("answers").write(b"half")
            partial.save({"examples": 1234})
            raise error
    assert said == ["1,234 predictions are kept: the same command resumes, --fresh starts over"]
    with opened(out, note=said.append) as partial:
        assert partial.saved == {"examples": 1234} and partial.file("answers").read() == b"half"
        partial.finish()
    assert len(said) == 1 and out.read_text() == "half"


def test_nothing_stays_of_what_was_not_saved_or_of_a_mistake(out):
    stopped(out, saved=False)
    assert names(out.parent) == []
    stopped(out, InputError("bad"))
    assert names(out.parent) == []


def test_another_call_starts_over_and_says_so(out):
    stopped(out)
    said = []
    with opened(out, {"model": "b", "outputs": ["y"], "batch size": 7}, note=said.append) as partial:
        assert partial.saved is None and partial.file("answers").read() == b""
        partial.file("answers").close()
        partial.file("answers").write(b"new")
        partial.finish()
    assert said == [f"{out}: found partial results of a different call (model, batch size); starting over"]
    stopped(out)
    with opened(out, fresh=True, note=said.append) as partial:
        assert partial.saved is None and names(partial.folder) == ["lock"]
        partial.file("answers")
        partial.finish()
    assert len(said) == 1


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"call": 1}',
        b'{"call": 1, "saved": {}}',
        b'{"call": {}, "saved": 1}',
        b"\xff",
        b"[" * 10_000,
    ],
)
def test_a_state_of_nonsense_is_a_beginning(out, content):
    stopped(out)
    (out.parent / ".y.csv.partial/state.json").write_bytes(content)
    with opened(out) as partial:
        assert partial.saved is None
        partial.file("answers")
        partial.finish()


def hold(out, ready, end):
    with opened(out) as partial:
        ready.set()
        end.wait(30)
        partial.file("answers").write(b"theirs")
        partial.finish()


def test_two_processes_do_not_write_the_same_output(out):
    context = multiprocessing.get_context("spawn")
    ready, end = context.Event(), context.Event()
    other = context.Process(target=hold, args=(out, ready, end))
    other.start()
    assert ready.wait(30)
    with pytest.raises(InputError, match="y.csv is being written by another process: wait for it, or give another"):
        with opened(out):
            pass
    end.set()
    other.join(30)
    assert out.read_text() == "theirs"


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda out: out.symlink_to(out.with_name("other"))])
def test_only_a_file_is_replaced(out, make):
    make(out)
    before = out.lstat()
    with pytest.raises(InputError, match="y.csv', (which is a FIFO|a folder|a link)"):
        with opened(out) as partial:
            partial.file("answers")
            partial.finish()
    assert out.lstat() == before and names(out.parent) == ["y.csv"]


def test_what_somebody_else_has_put_there(out, tmp_path):
    victim = tmp_path / "victim"
    victim.mkdir()
    (out.parent / ".y.csv.partial").symlink_to(victim)
    with pytest.raises(InputError, match="y.csv.partial, where partial results go, is not a folder of yours"):
        with opened(out):
            pass
    (out.parent / ".y.csv.partial").unlink()
    if os.getuid() == 0:
        (out.parent / ".y.csv.partial").mkdir()
        os.chown(out.parent / ".y.csv.partial", 65534, 65534)
        with pytest.raises(InputError, match="y.csv.partial, where partial results go, is not a folder of yours"):
            with opened(out):
                pass
    assert names(victim) == []


def test_where_no_folder_can_be_made():
    with pytest.raises(InputError, match=r"/proc/\.y\.csv\.partial cannot be made, and partial results go there: give"):
        with opened(Path("/proc/y.csv")):
            pass
