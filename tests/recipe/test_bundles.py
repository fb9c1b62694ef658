"""Weights whose bytes were altered are named in one line, or their values are the same."""

import subprocess
import sys
from pathlib import Path

import pytest

from tapeline.runtime.errors import InputError

FLIPS = """
import sys
from pathlib import Path
import numpy as np
from tapeline.runtime import startup
startup.tensorflow()
import tensorflow as tf
from tapeline.runtime.errors import InputError
from tapeline.recipe import bundles, variables

folder, suffix = Path(sys.argv[1]), sys.argv[2]
held = {f"model/layer_{n}/kernel": tf.Variable(np.arange(9 + n, dtype=np.float32)) for n in range(3)}
held["n"] = tf.Variable(7, dtype=tf.int64)
held["free"] = tf.Variable(np.ones([2, 3], np.float32), shape=tf.TensorShape(None))
prefix = folder / "weights"
bundles.write(prefix, variables.snapshot(held))
file = Path(f"{prefix}{suffix}")
whole = file.read_bytes()
refused = 0

def check(content, what):
    global refused
    file.write_bytes(content)
    try:
        values = bundles.read(prefix, held)
    except InputError as error:
        refused += 1
        assert str(file) in str(error) and len(str(error).splitlines()) == 1, (what, str(error))
        assert str(error).endswith("`dvc checkout` it, or train again"), (what, str(error))
    else:
        assert all(np.array_equal(values[name], held[name].read_value()) for name in held), what

for place in range(len(whole)):
    for bit in (1, 128):
        print(place, bit, flush=True)
        check(whole[:place] + bytes([whole[place] ^ bit]) + whole[place + 1:], (place, bit))
for length in range(0, len(whole), 5):
    print("cut", length, flush=True)
    check(whole[:length], length)
file.unlink()
try:
    bundles.read(prefix, held)
except InputError as error:
    assert f"{file} is missing" in str(error), error
else:
    sys.exit("a missing file was read")
assert refused > len(whole), refused
"""


@pytest.mark.parametrize("suffix", [pytest.param(".index", marks=pytest.mark.slow), ".data-00000-of-00001"])
def test_every_flipped_byte_is_said_or_does_not_matter(root, tmp_path: Path, suffix: str) -> None:
    """In a process of its own: what TensorFlow is given to read may end it."""
    answer = subprocess.run(
        [sys.executable, "-c", FLIPS, str(tmp_path), suffix],
        cwd=root / "src",
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert answer.returncode == 0, (answer.stdout[-100:], answer.stderr[-3000:])


def test_a_checkpoint_that_was_cut_is_not_to_be_checked_out(tf, tmp_path: Path) -> None:
    from tapeline.recipe import bundles

    held = {"w": tf.Variable(1.0)}
    bundles.write(tmp_path / "state", {"w": held["w"].read_value()})
    Path(f"{tmp_path / 'state'}.index").write_bytes(b"")
    with pytest.raises(InputError, match=r"state\.index was truncated or altered .*: start over with --fresh$"):
        bundles.read(tmp_path / "state", held, remedy="start over with --fresh")
