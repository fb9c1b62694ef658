"""The raw data of a new project are copied whatever their size."""

import subprocess
import sys

import pytest

from tapeline.runtime.errors import InputError
from tapeline.scaffold import raw_data

PEAK = """
import re, sys
from pathlib import Path
from tapeline.scaffold import raw_data

def size(name):
    return int(re.search(rf"{name}:\\s+([0-9]+) kB", Path("/proc/self/status").read_text())[1])

Path("/proc/self/clear_refs").write_text("5")  # the peak is that from here on: a child's begins at its parent's
before = size("VmRSS")
raw_data.copy(Path(sys.argv[1]), Path(sys.argv[2]))
print((size("VmHWM") - before) * 1024)
"""


def test_a_large_table_is_not_held_in_memory(tmp_path):
    source, place = tmp_path / "source", tmp_path / "data" / "raw" / "source"
    with source.open("wb") as file:
        file.truncate(200_000_000)
    command = [sys.executable, "-c", PEAK, str(source), str(place)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) < 50_000_000
    assert place.stat().st_size == 200_000_000


def test_a_copy_is_there_as_a_whole_or_not_at_all(tmp_path):
    source, place = tmp_path / "source", tmp_path / "data" / "source"
    source.write_bytes(b"a,b\n1,2\n")
    assert raw_data.copy(source, place) == [place] and place.read_bytes() == source.read_bytes()
    place.unlink()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("not ours")
    (place.parent / ".source.partial").symlink_to(elsewhere)
    with pytest.raises(InputError, match="is a link"):
        raw_data.copy(source, place)
    assert not place.exists() and elsewhere.read_text() == "not ours"
