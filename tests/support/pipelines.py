"""Every pipeline of the project and its gallery, with substitute data of the same features that needs no network."""

from pathlib import Path

import datasets
import numpy as np
from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[2]
STEPS_PER_EPOCH = 4


def pipelines():
    """Return (name, entry) of every pipeline of the project and its gallery."""
    found = {}
    for folder in (ROOT, ROOT / "gallery"):
        if (folder / "params.yaml").exists():
            entries = YAML(typ="safe").load((folder / "params.yaml").read_text())["pipelines"]
            found |= {name: (folder, entry) for name, entry in entries.items()}
    return found


PIPELINES = pipelines()
ONE_PER_RECIPE = list(
    {entry["recipe"].split("/")[-1]: name for name, (_, entry) in reversed(PIPELINES.items())}.values()
)
"""For each recipe, the first pipeline that uses it."""


def without_models(params):
    """Return a recipe's parameters except those that name another pipeline's model, which tests do not build."""
    return {name: value for name, value in params.items() if "models/" not in str(value)}


IMAGES = {"digits": ((8, 8, 1), 17), "mnist": ((28, 28, 1), 256), "cifar10": ((32, 32, 3), 256)}
"""Dataset → shape, and the number of possible pixel values."""


def stand_in(name: str, folder: Path, batch: int) -> Path:
    """Write a dataset with the features of dataset `name`; its train split has `STEPS_PER_EPOCH` batches and a rest."""
    random = np.random.default_rng(1)
    count = STEPS_PER_EPOCH * batch + 1
    if name in IMAGES:
        shape, values = IMAGES[name]

        def images(n):
            image = random.integers(0, values, (n, *shape)).astype(np.uint8)
            return {"image": image, "label": random.integers(0, 10, n)}

        classes = {"label": [str(digit) for digit in range(10)]}
        splits = {"train": images(count), "val": images(5), "test": images(5)}
        return datasets.write(folder, splits, classes).folder
    if name == "line":
        return datasets.points(folder, examples=count).folder
    make, has_train = {"additions": (sums, True), "sinusoids": (waves, False), "cartpole": (starts, False)}[name]
    sizes = {"train": count, "val": 5, "test": 5} if has_train else {"val": 5, "test": 5}
    return datasets.write(folder, {split: make(random, size) for split, size in sizes.items()}).folder


def sums(random, size):
    pairs = random.integers(100, 1000, (size, 2)).tolist()
    texts = {"question": [f"{a}+{b}" for a, b in pairs], "answer": [f"{a + b:<4}" for a, b in pairs]}
    return {name: np.array([list(text.encode()) for text in lines], np.uint8) for name, lines in texts.items()}


def waves(random, size):
    x = {part: random.uniform(-5, 5, (size, n, 1)).astype(np.float32) for part, n in (("support", 10), ("query", 7))}
    return {f"{part}_{axis}": f(x[part]) for part in x for axis, f in (("x", np.asarray), ("y", np.sin))}


def starts(random, size):
    return {"seed": np.arange(size), "state": random.uniform(-0.05, 0.05, (size, 4)).astype(np.float32)}
