"""A file that is ours by its name, and was replaced by something else: nothing waits for it, and nothing goes elsewhere."""

import os
from pathlib import Path

import pytest
from disks import link_to_a_device, unix_socket

from tapeline.runtime import files, processes
from tapeline.runtime.errors import InputError
from tapeline.runtime.locks import is_held

SAID = "is a link, a folder, a FIFO or the like, not a regular file that Tapeline wrote: remove it$"


def link(path: Path) -> None:
    (path.parent / "elsewhere").write_text("as it was")
    path.symlink_to("elsewhere")


def link_to_a_folder(path: Path) -> None:
    (path.parent / "elsewhere").mkdir()
    (path.parent / "elsewhere" / "a").write_text("as it was")
    path.symlink_to("elsewhere")


def link_to_nothing(path: Path) -> None:
    path.symlink_to("elsewhere")


NO_FILES = [os.mkfifo, unix_socket]
LINKS = [link, link_to_a_folder, link_to_nothing, link_to_a_device]
TRAPS = [*NO_FILES, *LINKS]
trapped = pytest.mark.parametrize("make", TRAPS, ids=lambda make: make.__name__)


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # the name of a socket is short


def names(folder="."):
    return sorted(path.name for path in Path(folder).iterdir())


def elsewhere():
    """Return what is where the links lead."""
    place = Path("elsewhere")
    return place.read_text() if place.is_file() else names(place) if place.is_dir() else None


@pytest.mark.timeout(60)
@pytest.mark.parametrize("make", [*TRAPS, os.mkdir], ids=lambda make: make.__name__)
def test_a_lock(make):
    make(Path("lock"))
    before = elsewhere()
    with pytest.raises(InputError, match=f"^lock {SAID}"):
        with processes.exclusive(Path("lock"), waiting=print):
            pass
    with pytest.raises(InputError, match=f"^lock {SAID}"):
        is_held(Path("lock"))
    assert elsewhere() == before and os.path.lexists("lock")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("make", [*TRAPS, os.mkdir], ids=lambda make: make.__name__)
def test_a_half_written_file(make):
    make(Path(".x.partial"))
    before = elsewhere()
    with pytest.raises(InputError, match=f"^.x.partial {SAID}"):
        files.write_text(Path("x"), "new")
    assert elsewhere() == before and not Path("x").exists() and os.path.lexists(".x.partial")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("make", LINKS, ids=lambda make: make.__name__)
def test_a_link_is_replaced_and_not_followed(make):
    make(Path("x"))
    before = elsewhere()
    files.write_text(Path("x"), "new")
    assert elsewhere() == before and Path("x").read_text() == "new" and not Path("x").is_symlink()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("make", NO_FILES, ids=lambda make: make.__name__)
def test_what_is_no_file_is_not_replaced(make):
    """As root, `/dev/null` became a file."""
    make(Path("x"))
    before = Path("x").lstat()
    with pytest.raises(InputError, match="^x is a FIFO, a socket or a device, not a file: give a file, or remove it$"):
        files.write_text(Path("x"), "new")
    assert Path("x").lstat() == before and names() == ["x"]


@pytest.mark.timeout(60)
@trapped
@pytest.mark.parametrize("name", ["out", ".out.partial", ".out.old.partial"])
def test_a_folder_is_replaced_and_not_followed(make, name):
    make(Path(name))
    before = elsewhere()
    for text in ("one", "two"):
        with files.replacing(Path("out")) as folder:
            (folder / "x").write_text(text)
    assert elsewhere() == before and Path("out/x").read_text() == "two" and not Path("out").is_symlink()
    assert set(names()) <= {"out", "elsewhere"}


@pytest.mark.timeout(60)
@trapped
def test_what_was_there_is_there_again_after_a_failure(make):
    make(Path("out"))
    before = elsewhere(), Path("out").lstat()
    with pytest.raises(KeyError), files.replacing(Path("out")):
        raise KeyError
    assert (elsewhere(), Path("out").lstat()) == before


@pytest.mark.timeout(60)
def test_a_new_folder_with_what_is_no_file_in_it():
    with files.replacing(Path("out")) as folder:
        os.mkfifo(folder / "x")
        (folder / "y").symlink_to("nothing")
    assert names("out") == ["x", "y"]


def test_a_link_to_nothing_is_no_place_for_a_folder():
    Path("a").symlink_to("elsewhere")
    for folder in ("a", "a/b"):
        with pytest.raises(NotADirectoryError):
            files.make_folder(Path(folder))
    assert not Path("elsewhere").exists()


def test_who_holds_a_lock_is_told_by_a_number_and_nothing_else():
    said = []

    def stop(line):
        said.append(line)
        raise KeyboardInterrupt

    for text, holder in (("\x1b[2J", "unknown"), ("7" * 30, "7" * 20), ("", "unknown")):
        with processes.exclusive(Path("lock"), waiting=print):
            assert Path("lock").read_text() == str(os.getpid())
            Path("lock").write_text(text)
            with pytest.raises(KeyboardInterrupt):
                with processes.exclusive(Path("lock"), waiting=stop):
                    pass
        assert said.pop() == f"waiting for process {holder}, which holds lock"
