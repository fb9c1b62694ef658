"""What is said where nobody listens any more ends no work; a disk that is full is told."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tapeline.runtime import streams

GOES_ON = """
import sys
from tapeline.runtime import streams
sys.stdin.readline()
for line in ("one", "two"):
    streams.say(line, sys.stdout)
print("still buffered")
print("it went on", file=sys.stderr)
"""


@pytest.fixture(params=["pipe", "terminal"])
def gone(request):
    """The writing end of a pipe or a terminal, and the other end, which is to be closed."""
    reader, writer = os.pipe() if request.param == "pipe" else os.openpty()
    yield reader, writer
    os.close(writer)


def test_it_goes_on(gone):
    reader, writer = gone
    with subprocess.Popen(
        [sys.executable, "-c", GOES_ON],
        stdin=subprocess.PIPE,
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        os.close(reader)
        _, said = process.communicate("\n", timeout=60)
    assert (process.returncode, said) == (0, "it went on\n")


TWO = """
import sys, threading
from tapeline.runtime import streams
sys.setswitchinterval(1e-6)
def many(letter):
    for _ in range(20_000):
        streams.say(letter * 30, sys.stdout)
threads = [threading.Thread(target=many, args=letter) for letter in "ab"]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


def test_lines_of_two_threads_stay_apart():
    said = subprocess.run([sys.executable, "-c", TWO], capture_output=True, text=True, check=True, timeout=60).stdout
    assert set(said.splitlines()) == {"a" * 30, "b" * 30}


def test_a_full_disk_is_told():
    with Path("/dev/full").open("w") as full:
        with pytest.raises(OSError) as raised:
            streams.say("x", full)
        assert raised.value.errno == errno.ENOSPC
        os.dup2(os.open(os.devnull, os.O_WRONLY), full.fileno())  # it would fail again when it is closed


def test_a_disk_that_fails_is_no_closed_terminal(tmp_path):
    class Broken:
        def __init__(self, file):
            self.fileno = file.fileno

        def write(self, text):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    with (tmp_path / "log").open("w") as file, pytest.raises(OSError, match="Input/output error"):
        streams.say("x", Broken(file))
