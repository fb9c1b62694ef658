"""XLA compiles a loop once, whatever the lengths of the loops; counted by what it dumps."""

import json
import os
import subprocess
import sys
from pathlib import Path

import datasets
import pytest
import recipes

SUPPORT = [str(Path(__file__).resolve().parents[1] / "support"), str(Path(__file__).resolve().parents[2] / "src")]
PROGRAM = """
import json, sys
sys.path[:0] = json.loads(sys.argv[1])
from pathlib import Path
from trainings import Lengths, Run

folder = Path(sys.argv[2])
run = Run(folder / sys.argv[3], folder / "recipe.py", folder / "points", {"learning_rate": 0.01}, epochs=40, batch_size=8,
          compile="xla")
run(pace=Lengths(*map(int, sys.argv[3].split("-"))))
"""


def compiled(folder, lengths):
    """Return how many modules XLA compiled in a training of its own process."""
    dump = folder / f"dump-{lengths}"
    command = [sys.executable, "-c", PROGRAM, json.dumps(SUPPORT), str(folder), lengths]
    env = {**os.environ, "XLA_FLAGS": f"--xla_dump_to={dump} --xla_dump_hlo_as_text"}
    subprocess.run(command, check=True, env=env, timeout=120, capture_output=True)
    return len({path.name.split(".")[0] for path in dump.glob("module_*")})


@pytest.mark.slow
def test_many_lengths_compile_as_often_as_one(tmp_path):
    datasets.points(tmp_path / "points", examples=64)
    recipes.write(tmp_path)
    whole = compiled(tmp_path, "320")
    assert compiled(tmp_path, "1-2-3-50-7") == whole >= 1
