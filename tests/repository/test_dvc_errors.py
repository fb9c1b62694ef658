"""DVC's errors as one line."""

import sqlite3
from contextlib import closing

import pytest

from tapeline.repository.dvc.repository import Dvc
from tapeline.repository.dvc_errors import error_line, first_lines, in_one_line
from tapeline.runtime.errors import InputError, RunError

MISSING = (
    "ERROR: failed to pull data from the cloud - Checkout failed for following targets:\na\nIs your cache up to date?"
)


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ("", "it failed without output"),
        ("\n", "it failed without output"),
        ("no error of DVC's", "no error of DVC's"),
        (
            f"WARNING: some are lost\n{MISSING}\n<https://error.dvc.org/missing-files>\n",
            "failed to pull data from the cloud - Checkout failed for following targets: a",
        ),
        (
            "ERROR: unexpected error - no such bucket\n\nHaving any troubles? Hit us up at https://dvc.org/support\n",
            "unexpected error - no such bucket",
        ),
    ],
)
def test_what_dvc_says_is_one_line_without_its_advice(output, line):
    assert error_line(output) == line


def test_a_process_that_uses_several_files_is_told_once():
    process = "  (PID 7): python reproduction.py train@digits"
    said = f"'a' is busy, it is being blocked by:\n{process}\n{process}\n\nIf there are no processes with such PIDs"
    assert first_lines(said) == f"'a' is busy, it is being blocked by: {process.strip()}"


def test_a_full_disk_is_no_mistake_in_the_files(tmp_path):
    """DVC's database says so in its own way: it was called a mistake in dvc.yaml, with status 2."""
    with closing(sqlite3.connect(tmp_path / "db")) as database:
        database.execute("pragma max_page_count = 2")
        with pytest.raises(RunError, match=r"^DVC: no space left on the disk: free some and run again$"), in_one_line():
            for name in "abc":
                database.execute(f"create table {name} (column)")


def test_a_folder_without_git_is_told_what_helps(tmp_path):
    (tmp_path / ".dvc").mkdir()
    with pytest.raises(InputError, match=r"is in no Git repository: `git init` makes one$"), in_one_line():
        Dvc(tmp_path)


def test_a_link_into_a_cache_that_has_lost_the_file_is_told_as_one(tmp_path):
    link = tmp_path / "one.txt"
    link.symlink_to(tmp_path / "cache")
    message = r"one\.txt is a link to .*/cache, which is gone from DVC's cache: `dvc fetch` brings the file back"
    with pytest.raises(RunError, match=message), in_one_line():
        link.read_bytes()
