"""XLA compiles a loop once, whatever the lengths of the loops and of the chunks; counted by what it dumps."""

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
paths, folder, lengths, chunk, settings = map(json.loads, sys.argv[1:])
sys.path[:0] = paths
from pathlib import Path
from tapeline.train.data import feed
from trainings import Lengths, Run

feed.CHUNK_STEPS = chunk
folder = Path(folder)
run = Run(folder / f"{lengths}-{chunk}", folder / "recipe.py", folder / "blobs", {}, epochs=20, batch_size=8,
          compile="xla", **settings)
run(pace=Lengths(*lengths))
"""


def compiled(folder, lengths, chunk=4096, **settings):
    """Return how many modules XLA compiled in a training of its own process."""
    dump = folder / f"dump-{lengths}-{chunk}".replace(" ", "")
    asked = [json.dumps(each) for each in (SUPPORT, str(folder), lengths, chunk, settings)]
    env = {**os.environ, "XLA_FLAGS": f"--xla_dump_to={dump} --xla_dump_hlo_as_text"}
    subprocess.run([sys.executable, "-c", PROGRAM, *asked], check=True, env=env, timeout=120, capture_output=True)
    return len({path.name.split(".")[0] for path in dump.glob("module_*")})


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"data": "stream", "shards": 2}], ids=str)
def test_many_lengths_and_chunks_compile_as_often_as_one(tmp_path, settings):
    """With what `prepare` draws, too, which a step takes from the chunk by its row."""
    datasets.blobs(tmp_path / "blobs", examples=128)
    recipes.write(tmp_path, recipes.EVERYTHING)
    whole = compiled(tmp_path, [320], **settings)
    assert compiled(tmp_path, [1, 2, 3, 50, 7], 41, **settings) == whole >= 1
