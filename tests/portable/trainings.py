"""`python -m tests.portable.trainings [NAME…]`: one hash for a short training of each pipeline, on this CPU.

Each has its pipeline's recipe, parameters, compile mode and precision, and a few steps on substitute data that come from
a seed. The hash is of weights, metrics and history. `trainings.json` has what every CPU gives. TensorFlow begins with one
number of threads an operation, so those of `APART`, which need another, are only trained where they are named, each in a
process of its own.
"""

import hashlib
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from pipelines import PIPELINES, stand_in, without_models
from trainings import Run

BATCH = 8
EPOCHS, STEPS_PER_EPOCH = 2, 2
"""Of a training; `STEPS_PER_EPOCH` for recipes that draw their data."""
ALONE = {"init_from", "weights"}
"""Settings that name what other pipelines make."""
APART = {
    "cifar10-cnn in bfloat16": ("cifar10-cnn", {"precision": "mixed_bfloat16", "shards": 2, "batch_size": 64}),
    "cifar10-cnn in shards": ("cifar10-cnn", {"shards": 2, "batch_size": 64}),
    "digits in bfloat16": ("digits", {"precision": "mixed_bfloat16", "batch_size": 32}),
    "digits in shards": ("digits", {"shards": 4, "batch_size": 128}),
    "digits in two threads": ("digits", {"threads": 2, "batch_size": 128}),
    "mnist-mlp in eight threads": ("mnist-mlp", {"threads": 8, "batch_size": 256}),
}
"""Name → a pipeline, and its settings besides `epochs`. Convolutions of this size have gradients that XLA compiles."""


def names() -> list[str]:
    """Return the pipelines that can be trained here: those with portable bits."""
    return [name for name, (_, entry) in PIPELINES.items() if entry["train"].get("bits", "portable") == "portable"]


def hashes(only: Iterable[str] = ()) -> Iterator[tuple[str, str]]:
    """Yield each pipeline's name and the hash of a short training."""
    for name in only or names():
        with tempfile.TemporaryDirectory() as folder:
            yield name, _hash(name, Path(folder))


def _hash(name: str, folder: Path) -> str:
    pipeline, own = APART.get(name, (name, {}))
    project, entry = PIPELINES[pipeline]
    settings = {key: value for key, value in entry["train"].items() if key not in ALONE}
    settings |= {"epochs": EPOCHS, "batch_size": min(settings["batch_size"], BATCH), **own}
    batch = settings["batch_size"]
    if "steps_per_epoch" in settings:
        settings["steps_per_epoch"] = STEPS_PER_EPOCH
    data = stand_in(entry["dataset"], folder / "data", batch)
    run = Run(folder / "run", project / entry["recipe"], data, without_models(entry.get("params", {})), **settings)
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        outs = run().outs()
    known = hashlib.sha256()
    for path, content in sorted(outs.items()):
        if path != "run.json":  # which names the versions and the machine
            known.update(f"{path}\0{len(content)}\0".encode() + content)
    return known.hexdigest()[:16]


if __name__ == "__main__":
    for pipeline, value in hashes(sys.argv[1:]):
        print(f"{pipeline:40}{value}", flush=True)
