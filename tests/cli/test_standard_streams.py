"""Standard streams that the caller has closed, or whose encoding lacks a name, in any command."""

import os
import sys

import clones
import pytest

PROGRAM = """
import os, subprocess, sys
from pathlib import Path
from tapeline.cli.standard_streams import open_missing
open_missing()
opened = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
print("lost")
print("lost \\udce9", file=sys.stderr, flush=True)
assert sys.stdin.read() == ""
subprocess.run(["sh", "-c", "cat; echo lost; echo lost >&2"], check=True)
places = [os.readlink(f"/proc/self/fd/{number}") for number in range(3)]
os.write(opened, (str(opened) + " " + " ".join(places)).encode())
"""


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2)])
def test_no_file_gets_the_number_of_a_closed_stream(tmp_path, closed):
    (tmp_path / "program.py").write_text(PROGRAM)
    closing = " ".join(f"{number}>&-" for number in closed)
    answer = clones.shell(f"{sys.executable} -P program.py result {closing}", tmp_path)
    assert answer.returncode == 0, answer.stderr
    opened, *places = (tmp_path / "result").read_text().split()
    assert int(opened) > 2
    assert [places[number] for number in closed] == [os.devnull] * len(closed)
    assert answer.stdout == (b"" if 1 in closed else answer.stdout)


@pytest.mark.parametrize("closing", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_command_without_a_stream(tmp_path, closing):
    for command, status in (("--version", 0), ("list", 2)):
        answer = clones.shell(f"{sys.executable} -P -m tapeline {command} {closing}", tmp_path)
        assert answer.returncode == status, answer.stderr
        assert b"Traceback" not in answer.stderr


def test_a_name_that_stdout_cannot_encode_is_escaped(tmp_path):
    program = (
        "import os; from tapeline.cli.standard_streams import *; print_any_name(); print(os.fsdecode(b'caf\\xe9'))"
    )
    for encoding, said in (("utf-8:strict", b"caf\\udce9\n"), ("utf-8:surrogateescape", b"caf\xe9\n")):
        answer = clones.shell(f'{sys.executable} -P -c "{program}"', tmp_path, PYTHONIOENCODING=encoding)
        assert (answer.returncode, answer.stdout) == (0, said), answer.stderr
