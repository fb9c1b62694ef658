"""Standard streams that the caller has closed, or whose encoding lacks a name, in any command."""

import os
import subprocess
import sys
from contextlib import suppress

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


PRINTS = r"""
import sys, numpy as np
from pathlib import Path
from tapeline.cli.standard_streams import EscapedTerminal, tell
from tapeline.prediction.inputs import Piece
from tapeline.prediction.lines import Lines
EscapedTerminal.where_there_is_one()
lines = Lines(sys.stdout.buffer, "csv")
piece = Piece(Path("a\x1b[2J"), 0, {"x": np.zeros((1, 1))})
lines.write(lines.render([piece], {"class_name": np.array(["\x1b]0;owned\x07\u009b31m"])}))
lines.close()
tell("note: of a\x1b[2J\nnote: forged")
"""


def test_a_terminal_is_told_nothing_by_predictions_and_notes(tmp_path):
    """A file's name, or a class of somebody else's model, moved the cursor and set the window's title."""
    (tmp_path / "program.py").write_text(PRINTS)
    outer, inner = os.openpty()
    with subprocess.Popen([sys.executable, "-P", "program.py"], cwd=tmp_path, stdout=inner, stderr=inner):
        os.close(inner)
        found = b""
        with suppress(OSError):  # the other end is closed
            while more := os.read(outer, 2**16):
                found += more
    os.close(outer)
    row = r"a\x1b[2J,0,\x1b]0;owned\x07\x9b31m"
    assert found.decode().split("\r\n") == ["file,row,class_name", row, r"note: of a\x1b[2J note: forged", ""]
