"""The common inputs of a workload's contenders, as files: data, first batches, initial weights.

    python -m benchmarks.inputs WORKLOAD FOLDER

The recipe decides: its weights, its permutation of the examples and the random values of its `prepare` are written to
files, and the peers use them.
"""

import sys
from pathlib import Path

import numpy as np

from benchmarks.workload import Arrays, Inputs, Workload
from tapeline.dataset.columns import Dataset
from tapeline.runtime import files, startup

DATA = "data"


def write(workload: Workload, folder: Path) -> None:
    """Write all inputs. Imports TensorFlow."""
    dataset = write_dataset(folder / DATA, workload.columns())
    startup.tensorflow()
    from tapeline.train.assembly import assemble
    from tapeline.train.data.feed import INDEX

    parts = assemble(workload.recipe.path, workload.recipe.params, workload.recipe.settings(), dataset)
    np.savez(folder / "weights.npz", **{name: parts.state.variables[name].numpy() for name in parts.state.weights})
    indices = parts.batches.indices(0, workload.steps)
    np.save(folder / "indices.npy", indices.astype(np.int32))
    drawn = sorted(parts.feed.row_specs.keys() - {INDEX, *dataset.features})
    chunks = [chunk.rows for chunk in parts.feed.chunks(0, workload.steps)] if drawn else []
    made = {name: np.concatenate([rows[name] for rows in chunks])[: workload.steps] for name in drawn}
    np.savez(folder / "drawn.npz", **made)
    workload.prepare(folder)


def read(folder: Path) -> Inputs:
    """Return what `write` wrote."""
    return Inputs(
        folder=folder,
        columns=Dataset.open(folder / DATA).columns("train"),
        weights=dict(np.load(folder / "weights.npz")),
        indices=np.load(folder / "indices.npy"),
        drawn=dict(np.load(folder / "drawn.npz")),
    )


def write_dataset(folder: Path, columns: Arrays) -> Dataset:
    """Write a train split as ingest would."""
    records, features = {}, {}
    for name, values in columns.items():
        path = folder / "train" / f"{name}.npy"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, values)
        file = path.relative_to(folder).as_posix()
        records[name] = {"file": file, "bytes": path.stat().st_size, "sha256": files.sha256(path)}
        features[name] = {"shape": list(values.shape[1:]), "dtype": values.dtype.name}
    splits = {"train": {"examples": len(values), "columns": records}}
    index = {"name": folder.name, "source": {"kind": "benchmark"}, "features": features, "splits": splits}
    files.write_json(folder / "dataset.json", index)
    return Dataset.open(folder)


if __name__ == "__main__":
    from benchmarks.catalogue import workload

    write(workload(sys.argv[1]), Path(sys.argv[2]))
