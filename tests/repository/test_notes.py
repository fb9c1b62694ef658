"""Notes in Git's folder: each user's own, and none that another could have written."""

import errno
import os
import subprocess
import sys

import pytest

from tapeline.repository import notes
from tapeline.runtime.errors import InputError

OTHER = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file to somebody else")


def test_lines_are_added_at_the_end_and_for_this_user_alone(tmp_path):
    assert notes.lines(tmp_path, "runs") == []
    notes.append(tmp_path, "runs", "a")
    notes.append(tmp_path, "runs", "b", "c")
    assert notes.lines(tmp_path, "runs") == ["a", "b", "c", ""]
    assert notes.path(tmp_path, "runs") == tmp_path / "tapeline" / "runs"
    assert notes.path(tmp_path, "runs").stat().st_mode & 0o777 == 0o600


@as_root
def test_the_second_user_of_a_clone_has_a_list_of_his_own(tmp_path, capsys):
    notes.append(tmp_path, "runs", "a")
    first = notes.path(tmp_path, "runs")
    os.chown(first, OTHER, OTHER)
    assert notes.lines(tmp_path, "runs") == []
    notes.append(tmp_path, "runs", "b")
    assert notes.path(tmp_path, "runs") == first.with_name(f"runs.{os.geteuid()}")
    assert notes.lines(tmp_path, "runs") == ["b", ""]
    assert first.read_text() == "a\n"
    first.unlink()
    assert notes.lines(tmp_path, "runs") == ["b", ""], "a list stays in use where it began"
    assert capsys.readouterr().err == ""


@as_root
def test_a_list_that_another_user_has_made_in_ones_name_is_neither_read_nor_written(tmp_path, capsys):
    folder = tmp_path / "tapeline"
    folder.mkdir()
    for name in ("runs", f"runs.{os.geteuid()}"):
        (folder / name).write_text("theirs\n")
        os.chown(folder / name, OTHER, OTHER)
    assert notes.lines(tmp_path, "runs") == []
    own = folder / f"runs.{os.geteuid()}"
    assert capsys.readouterr().err == f"tapeline: ignoring {own}: it belongs to another user: delete it\n"
    with pytest.raises(PermissionError, match="it belongs to another user"):
        notes.append(tmp_path, "runs", "b")
    assert own.read_text() == "theirs\n"
    (folder / "runs").unlink()
    notes.append(tmp_path, "runs", "b")
    assert notes.lines(tmp_path, "runs") == ["b", ""], "the plain name is free again"


def test_a_list_that_others_may_write_and_a_link_to_one(tmp_path, capsys):
    notes.append(tmp_path, "runs", "a")
    path = notes.path(tmp_path, "runs")
    path.chmod(0o620)
    assert notes.lines(tmp_path, "runs") == []
    said = f"tapeline: ignoring {path}: others can write to it: `chmod 600` it, or delete it\n"
    assert capsys.readouterr().err == said
    path.chmod(0o600)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert notes.lines(tmp_path, "runs") == []
    assert capsys.readouterr().err == f"tapeline: ignoring {path}: it is not a regular file: delete it\n"
    with pytest.raises(InputError, match="is a link, a folder, a FIFO or the like, not a regular file"):
        notes.append(tmp_path, "runs", "b")


def test_a_message_that_nobody_reads_ends_nothing(tmp_path):
    notes.append(tmp_path, "runs", "a")
    notes.path(tmp_path, "runs").chmod(0o666)
    code = f"from pathlib import Path; from tapeline.repository import notes\nprint(notes.lines(Path({str(tmp_path)!r}), 'runs'))"
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as nobody:
        done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=nobody, check=False)
    assert (done.returncode, done.stdout) == (0, b"[]\n")


def test_a_disk_that_takes_a_part_at_a_time(tmp_path, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, text: write(descriptor, text[:3]))
    notes.append(tmp_path, "tags", "3f2a digits#prod#3", "77aa digits#prod#4")
    assert notes.lines(tmp_path, "tags") == ["3f2a digits#prod#3", "77aa digits#prod#4", ""]


def test_a_disk_that_fills_up_leaves_what_was_there(tmp_path, monkeypatch):
    notes.append(tmp_path, "tags", "3f2a digits#prod#3")
    write, taken = os.write, []

    def full(descriptor, text):
        if taken:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken.append(text)
        return write(descriptor, text[:5])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        notes.append(tmp_path, "tags", "77aa digits#prod#4")
    monkeypatch.undo()
    assert notes.lines(tmp_path, "tags") == ["3f2a digits#prod#3", ""]


def test_a_line_that_was_cut_spoils_no_other(tmp_path):
    notes.append(tmp_path, "tags", "3f2a digits#prod#3")
    os.truncate(notes.path(tmp_path, "tags"), 12)
    notes.append(tmp_path, "tags", "77aa digits#prod#4")
    assert notes.lines(tmp_path, "tags") == ["3f2a digits#", "77aa digits#prod#4", ""]
