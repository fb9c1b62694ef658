"""Every pipeline of the project and its gallery, with data of the same features that needs no network."""

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


def stand_in(name: str, folder: Path, batch: int) -> Path:
    """Write a dataset of the same features as dataset `name`, of `STEPS_PER_EPOCH` batches and a rest."""
    random = np.random.default_rng(1)
    count = STEPS_PER_EPOCH * batch + 1
    images = {"digits": (8, 8, 1), "mnist": (28, 28, 1), "cifar10": (32, 32, 3)}
    if name in images:
        high = 17 if name == "digits" else 256

        def split(n):
            image = random.integers(0, high, (n, *images[name])).astype(np.uint8)
            return {"image": image, "label": random.integers(0, 10, n)}

        classes = {"label": [str(digit) for digit in range(10)]}
        return datasets.write(folder, {"train": split(count), "val": split(5), "test": split(5)}, classes).folder
    assert name == "line", f"give dataset {name} a stand-in here"
    return datasets.points(folder, examples=count).folder
