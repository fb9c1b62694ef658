"""Input files that change while they are read are named, whatever else went wrong."""

import os

import pytest

from tapeline.prediction.snapshot import Snapshot
from tapeline.runtime.errors import InputError, Interrupted, RunError


@pytest.fixture
def given(tmp_path):
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("x\n1\n")
    return [tmp_path / "a.csv", tmp_path / "b.csv"]


def rewrite(file):
    """Write as many bytes, with the same time."""
    before = file.stat()
    file.write_text("x\n2\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def replace(file):
    file.with_name("other").write_text("x\n1\n")
    file.with_name("other").replace(file)


CHANGES = {
    "rewritten": rewrite,
    "longer": lambda file: file.write_text("x\n1\n2\n"),
    "replaced": replace,
    "removed": lambda file: file.unlink(),
}


@pytest.mark.parametrize("how", CHANGES)
def test_a_file_that_changes(given, how):
    snapshot = Snapshot(given)
    with pytest.raises(InputError, match=r"b\.csv changed while it was read: run again once nothing writes to it"):
        with snapshot.unchanged():
            CHANGES[how](given[1])


def test_a_file_that_is_read_and_not_changed(given):
    snapshot = Snapshot(given)
    with snapshot.unchanged():
        assert given[0].read_text() == "x\n1\n"
    assert snapshot.sha256() == Snapshot(given).sha256() != Snapshot(given[:1]).sha256()


@pytest.mark.parametrize("error", [InputError("line 7 is no JSON"), RunError("gone"), FileNotFoundError(2, "none")])
def test_a_failure_is_named_unless_a_change_may_be_why(given, error):
    snapshot = Snapshot(given)
    with pytest.raises(type(error), match=str(error).replace("[", ".")):
        with snapshot.unchanged():
            raise error
    with pytest.raises(InputError, match=r"a\.csv changed while it was read"):
        with snapshot.unchanged():
            rewrite(given[0])
            raise error


def test_a_signal_stays_a_signal(given):
    with pytest.raises(Interrupted), Snapshot(given).unchanged():
        rewrite(given[0])
        raise Interrupted("stopped", signum=2)


def test_a_file_that_is_missing_already(given):
    given[0].unlink()
    with pytest.raises(InputError, match=r"a\.csv: no such file"):
        Snapshot(given)
