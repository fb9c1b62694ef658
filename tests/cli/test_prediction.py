"""Where the answers go: nothing that is there already is lost, but an older output."""

import os
import sys

import clones
import exported
import numpy as np
import pytest

from tapeline.cli.prediction import _outs
from tapeline.runtime.errors import InputError


def test_an_output_that_is_not_there_or_is_a_file(tmp_path):
    (tmp_path / "old.csv").write_text("old")
    for name in ("new.csv", "old.csv"):
        assert _outs(tmp_path / name, [tmp_path / "a.npy"]) is None
    (tmp_path / "linked").symlink_to(tmp_path)
    assert _outs(tmp_path / "linked/new.csv", [tmp_path / "a.npy"]) is None
    each = _outs(tmp_path / "{name}.csv", [tmp_path / "a.npy", tmp_path / "b.npy"])
    assert each == [tmp_path / "a.csv", tmp_path / "b.csv"]


@pytest.mark.parametrize("name", ["y.csv", "{name}.csv"])
@pytest.mark.parametrize(
    ("make", "said"),
    [
        (os.mkfifo, "y.csv', which is a FIFO, a socket or a device: give the name of a file"),
        (os.mkdir, "y.csv', a folder: give the name of a file"),
        (lambda out: out.symlink_to(os.devnull), "y.csv', a link: give the file that it points to, or remove the"),
        (lambda out: out.symlink_to(out.with_name("other.csv")), "y.csv', a link: give the file that it points"),
        (lambda out: out.symlink_to(out), "y.csv', a link: give the file that it points to, or remove the link"),
    ],
)
def test_what_is_in_the_place_of_an_output_and_no_file(tmp_path, make, said, name):
    make(tmp_path / "y.csv")
    with pytest.raises(InputError, match=said):
        _outs(tmp_path / name, [tmp_path / "y.npy"])


def test_links_to_themselves_are_no_folders_and_no_other_files(tmp_path):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(InputError, match=r"loop/y.csv': its folder does not exist; make it first"):
        _outs(tmp_path / "loop/y.csv", [tmp_path / "a.npy"])
    assert _outs(tmp_path / "y.csv", [tmp_path / "loop"]) is None, "reading says what is wrong with it"


def test_an_output_that_is_an_input_by_another_name(tmp_path):
    (tmp_path / "a.npy").write_bytes(b"")
    (tmp_path / "link.npy").symlink_to(tmp_path / "a.npy")
    with pytest.raises(InputError, match=r"link.npy', which is also an input: give another name"):
        _outs(tmp_path / "a.npy", [tmp_path / "link.npy"])


@pytest.mark.long
def test_closed_streams_and_names_that_are_no_text(tf, tmp_path):
    exported.export(tf, tmp_path / "model", lambda x: {"y": tf.math.sin(x)})
    np.save(tmp_path / "a.npy", np.ones((2, 2), np.float32))
    command = f"{sys.executable} -P -m tapeline predict ./model a.npy"

    printed = b"file,row,y.0,y.1\n"
    for more, begins in ((">&-", b""), ("2>&-", printed), ("<&- >&- 2>&-", b"")):
        answer = clones.shell(f"{command} {more}", tmp_path)
        assert answer.returncode == 0 and answer.stderr == b"", (more, answer.stderr)
        assert answer.stdout[: len(printed)] == begins
    answer = clones.shell(f"{command} --out \"$(printf 'caf\\351.csv')\"", tmp_path, PYTHONIOENCODING="utf-8:strict")
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout == b"2 predictions by model: caf\\udce9.csv\n"
    assert (tmp_path / os.fsdecode(b"caf\xe9.csv")).read_bytes().startswith(b"file,row")
