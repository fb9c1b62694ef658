"""SIGTERM at random moments of real trainings: each leaves a checkpoint that restores, within five seconds.

    TAPELINE_SIGNALS=200 pytest -s tests/train/test_signals_at_random.py

prints how many fell into compiling, training, validating and checkpointing.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import datasets
import pytest
import recipes
from projects import write_params

from tapeline.config.train import TrainSettings

ROOT = Path(__file__).resolve().parents[2]
COUNT = int(os.environ.get("TAPELINE_SIGNALS", "8"))

# Compiles for seconds under XLA, has a state of 8 MB, and a validation of a third of a second.
BUSY = (
    ("field(0.1, gt=0)", "field(1e-12, gt=0)"),
    (
        "class Line",
        "import time, pathlib\n\ndef deep(x):\n    for n in range(150):\n"
        "        x = tf.sin(x * (n + 1.5)) + tf.linalg.matmul(x, x, transpose_b=True)[:, :1] * 1e-9\n"
        "    return x\n\nclass Line",
    ),
    (
        'self.model(batch["x"], training=training)',
        'self.model(batch["x"], training=training) + 1e-9 * tf.stop_gradient(deep(batch["x"]))',
    ),
    (
        "    def build(self):\n",
        "    def evaluate(self, data):\n        marker = pathlib.Path('validating')\n        marker.touch()\n"
        "        time.sleep(0.3)\n        marker.unlink()\n        return {'slept': 0.3}\n\n"
        "    def build(self):\n        self.large = tf.Variable(tf.zeros([2_000_000]))\n",
    ),
    (
        "    def loss(self",
        "    def train_step(self, batch, context):\n        self.large.assign_add(tf.ones([2_000_000]))\n"
        "        return super().train_step(batch, context)\n\n    def loss(self",
    ),
)
TRAIN = {"epochs": 10**6, "batch_size": 8, "validate_every": 20, "checkpoint": {"every_steps": 40}}


def kind(folder: Path) -> str:
    """Return what the trainer is doing at this moment."""
    if (folder / "validating").exists():
        return "validating"
    if any((folder / ".tapeline" / "checkpoints" / "long").glob("*/.step-*")):
        return "checkpointing"
    told = (folder / ".tapeline" / "progress" / "train@long.jsonl").read_text()
    return "training" if '"event": "progress"' in told else "compiling"


def one(folder: Path, mode: str, chance: random.Random, wanted: str) -> tuple[str, float, Path]:
    """Train, send SIGTERM at a random moment of a wanted kind; return the kind, seconds to the end, place."""
    folder.mkdir(parents=True)
    datasets.points(folder / "data" / "points", examples=64)
    recipes.write(folder, recipes.LINE, *BUSY)
    write_params(folder, **TRAIN, compile=mode)
    process = subprocess.Popen(
        [sys.executable, "-m", "tapeline", "train", "long"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stderr=subprocess.PIPE,
        text=True,
    )
    progress = folder / ".tapeline" / "progress" / "train@long.jsonl"
    limit = time.monotonic() + 120
    while not (progress.exists() and '"event": "started"' in progress.read_text()):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < limit
        time.sleep(0.01)
    time.sleep(chance.uniform(0, 0.5 if wanted == "compiling" else 2))
    end = time.monotonic() + 10
    while kind(folder) != wanted and time.monotonic() < end:
        time.sleep(0.002)
    found = kind(folder)
    sent = time.monotonic()
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=60)[1]
    seconds = time.monotonic() - sent
    assert process.returncode == 143, (found, said[-2000:])
    return found, seconds, folder


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.timeout(3600)
def test_every_signal_leaves_a_checkpoint_that_restores(tmp_path, tf):
    from tapeline.dataset.columns import Dataset
    from tapeline.train.assembly import assemble
    from tapeline.train.checkpoints import disk

    kinds = ("compiling", "training", "validating", "checkpointing")
    asked = [(tmp_path / str(n), ("graph", "xla")[n % 2], random.Random(n), kinds[n // 2 % 4]) for n in range(COUNT)]
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda arguments: one(*arguments), asked))
    counted, slowest = Counter(found for found, *_ in results), max(seconds for _, seconds, _ in results)

    example = results[0][2]
    settings = TrainSettings.model_validate({**TRAIN, "compile": "graph", "checkpoint": {"every_steps": 40}})
    dataset = Dataset.open(example / "data" / "points")
    state = assemble(example / "recipe.py", {}, settings, dataset).state
    for found, seconds, folder in results:
        assert seconds < 30, (found, seconds)
        (place,) = (folder / ".tapeline" / "checkpoints" / "long").iterdir()
        said: list[str] = []
        snapshot = disk.newest(place, state.expected, said.append)
        assert snapshot is not None, (found, folder)
        assert not said
        state.restore(snapshot)
        assert float(state.variables["large"][0]) == snapshot.step, "not torn"
    print(f"{COUNT} signals: {dict(counted)}; slowest {slowest:.2f} s")
