"""Resident memory while training streams from a dataset that is larger than the machine's memory, against a small one.

    python -m benchmarks.memory [--times 1.5] [--seconds 60]

The large column is a sparse file: it takes no disk space, yet fills the page cache like any file. A process's share of
the page cache counts as resident too, but the kernel can reclaim it at any time, so both figures are reported.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks import program
from benchmarks.process import Process
from benchmarks.workload import OWN_RECIPES, ROOT, Recipe
from tapeline.runtime import files
from tapeline.runtime.records import LoopEnded, Record
from tapeline.train.job import Job
from tapeline.train.stage import train

SHAPE, BATCH = (256, 256, 3), 64
RECIPE = Recipe(path=OWN_RECIPES / "reading.py", train={"batch_size": BATCH, "data": "stream"})


def main() -> None:
    """Train on both in separate processes; print and write the memory that each used."""
    parser = program.parser(__doc__)
    parser.add_argument("--times", type=float, default=1.5, help="size of the large dataset in memories")
    parser.add_argument("--seconds", type=float, default=60.0, help="of training on each")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        stream(options.child, options.seconds)
        return
    large = int(options.times * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / np.prod(SHAPE))
    found = {}
    for name, examples in (("small", 10 * BATCH), ("large", large)):
        with tempfile.TemporaryDirectory() as made:
            write_sparse(Path(made) / "data", examples)
            command = [sys.executable, "-m", "benchmarks.memory", "--child", made, "--seconds", str(options.seconds)]
            done = subprocess.run(command, cwd=ROOT, env=Process.environment(), stdout=subprocess.PIPE, check=True)
        found[name] = {"gigabytes": examples * float(np.prod(SHAPE)) / 1e9, **json.loads(done.stdout)}
        print(f"{name}: {json.dumps(found[name])}", flush=True)
    for kind in ("resident_mb", "anonymous_mb"):
        print(f"{kind}: {found['large'][kind] - found['small'][kind]:+.0f} MB on the larger one")
    program.write(options.out, {"workload": "memory", **found})


def write_sparse(folder: Path, examples: int) -> None:
    """Write a dataset whose images are a hole in a sparse file."""
    (folder / "train").mkdir(parents=True)
    columns, features = {}, {}
    for name, shape, dtype in (("image", SHAPE, "uint8"), ("label", (), "int64")):
        path = folder / "train" / f"{name}.npy"
        np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=(examples, *shape)).flush()
        file, size = path.relative_to(folder).as_posix(), path.stat().st_size
        columns[name] = {"file": file, "bytes": size, "sha256": files.sha256(path)}
        features[name] = {"shape": list(shape), "dtype": dtype}
    splits = {"train": {"examples": examples, "columns": columns}}
    index = {"name": "sparse", "source": {"kind": "benchmark"}, "features": features, "splits": splits}
    files.write_json(folder / "dataset.json", index)


def stream(folder: Path, seconds: float) -> None:
    """Train for `seconds` after the first loop, print the peak memory seen after any loop, and end the process."""
    peaks: dict[str, float] = {"resident_mb": 0.0, "anonymous_mb": 0.0}
    began: list[float] = []

    def look(record: Record) -> None:
        if not isinstance(record, LoopEnded):
            return
        began.append(time.monotonic())
        for kind, now in resident().items():
            peaks[kind] = max(peaks[kind], now)
        if began[-1] - began[0] >= seconds:
            told = {**peaks, "examples": record.step * BATCH}
            os.write(1, json.dumps(told).encode())
            os._exit(0)

    train(
        Job(
            recipe=RECIPE.path,
            params=RECIPE.params,
            settings=RECIPE.settings(),
            data=folder / "data",
            out=folder / "out",
            checkpoints=folder / "checkpoints",
            traces=folder / "traces",
            hooks=[look],
        )
    )


def resident() -> dict[str, float]:
    """Return this process's resident memory, in total and without file pages, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    fields = {name: value for name, _, value in (line.partition(":") for line in lines)}
    return {kind: int(fields[field].split()[0]) / 1024 for kind, field in NAMES.items()}


NAMES = {"resident_mb": "VmRSS", "anonymous_mb": "RssAnon"}


if __name__ == "__main__":
    main()
