"""Datasets as ingest writes them, from arrays."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from tapeline.dataset.columns import Dataset
from tapeline.runtime import files


def write(
    folder: Path,
    splits: Mapping[str, Mapping[str, np.ndarray]],
    classes: Mapping[str, Sequence[str]] | None = None,
) -> Dataset:
    """Write the columns and `dataset.json`, and open it."""
    features, records = {}, {}
    for split, columns in splits.items():
        entries = {}
        for name, values in columns.items():
            path = folder / split / f"{name}.npy"
            path.parent.mkdir(parents=True, exist_ok=True)
            np.save(path, values)
            file = path.relative_to(folder).as_posix()
            entries[name] = {"file": file, "bytes": path.stat().st_size, "sha256": files.sha256(path)}
            features[name] = {"shape": list(values.shape[1:]), "dtype": values.dtype.name}
            if classes and name in classes:
                features[name]["classes"] = list(classes[name])
        records[split] = {"examples": len(values), "columns": entries}
    index = {"name": folder.name, "source": {"kind": "test"}, "features": features, "splits": records}
    files.write_json(folder / "dataset.json", index)
    return Dataset.open(folder)


def points(folder: Path, *, examples: int = 40, val: int = 7, seed: int = 0) -> Dataset:
    """Write y = x1 + x2 with a train, val and test split."""
    random = np.random.default_rng(seed)

    def split(count: int) -> dict[str, np.ndarray]:
        x = random.normal(size=(count, 2)).astype(np.float32)
        return {"x": x, "y": x.sum(1, keepdims=True)}

    return write(folder, {"train": split(examples), "val": split(val), "test": split(9)})


def blobs(folder: Path, *, examples: int = 100, classes: int = 3, seed: int = 0) -> Dataset:
    """Write 8×8 grey images whose class is the position of a bright patch."""
    random = np.random.default_rng(seed)

    def split(count: int) -> dict[str, np.ndarray]:
        label = random.integers(0, classes, count)
        image = random.integers(0, 5, (count, 8, 8, 1)).astype(np.uint8)
        for row, kind in enumerate(label):
            image[row, 2 * kind : 2 * kind + 2, :4] += 10
        return {"image": image, "label": label}

    names = {"label": [str(kind) for kind in range(classes)]}
    return write(folder, {"train": split(examples), "val": split(23), "test": split(31)}, names)
