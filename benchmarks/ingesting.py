"""Ingest against the obvious fast way to the same columns, on the same files.

    python -m benchmarks.ingesting [--repeats 5] [--rows 1000000] [--images 4000] [--cold]

Tables: Arrow reads the file with all its threads, `np.save` writes. Images: a pool of processes with Pillow, or tf.data
with TensorFlow's decoder. Each is a function in a process that has imported everything, in turn; the start of `tapeline
ingest`, with its imports, is measured apart. Files are in the page cache, or with `--cold`, which needs root, on the
disk alone; what is written is not waited for, except by ingest, which also checks every value, hashes source and
columns, and describes them. CPU time tells what a busy machine hides.
"""

import contextlib
import io
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from PIL import Image
from pyarrow import csv, parquet

from benchmarks import program
from benchmarks.images import images
from benchmarks.process import Process
from benchmarks.rounds import in_turn
from tapeline.config.ingest import ImageFolderSource, IngestSettings, TableSource
from tapeline.ingest.stage import ingest

COLUMNS = tuple(f"c{number}" for number in range(10))
SPECIES = ("setosa", "versicolor", "virginica", "another flower")
SIZE = (64, 64)
STEADY = 0.05
"""The spread above which no ratio is printed."""


def main() -> None:
    """Measure every kind of source; print a line and write a file for all."""
    parser = program.parser(__doc__, repeats=5)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--images", type=int, default=4_000)
    parser.add_argument("--cold", action="store_true", help="empty the page cache before each turn (root)")
    parser.add_argument("--only", choices=["numbers", "labels", "parquet", "jpeg"])
    options = parser.parse_args()
    found: dict[str, Any] = {"start": start()}
    print(f"start of `tapeline ingest`, which every call pays: {found['start']:.2f} s", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.only != "jpeg":
            write_tables(folder, options.rows)
        if options.only in (None, "jpeg"):
            write_images(folder / "pictures", options.images)
        age(folder)
        for kind, contenders in kinds(folder).items():
            if options.only in (None, kind):
                found[kind] = measured(
                    kind, contenders, options.repeats, before=empty_page_cache if options.cold else None
                )
    if options.only is None:
        name = "ingesting_cold" if options.cold else "ingesting"
        program.write(options.out, {"workload": name, **found})


def kinds(folder: Path) -> dict[str, dict[str, Callable[[], None]]]:
    """Return for each kind of source who reads it; `tapeline` comes first."""
    x, label = {"x": COLUMNS}, {"x": COLUMNS[:4], "species": "species"}
    pictures = ImageFolderSource(source="images", needs="pictures", size=SIZE)
    numbers, labels, stored = "numbers.csv", "labels.csv", "numbers.parquet"
    return {
        "numbers": {
            "tapeline": own(folder, TableSource(source="table", needs=numbers, features=x)),
            "Arrow": lambda: arrow(folder / numbers),
        },
        "labels": {
            "tapeline": own(folder, TableSource(source="table", needs=labels, features=label, label="species")),
            "Arrow": lambda: arrow(folder / labels),
        },
        "parquet": {
            "tapeline": own(folder, TableSource(source="table", needs=stored, features=x)),
            "Arrow": lambda: arrow(folder / stored),
        },
        "jpeg": {
            "tapeline": own(folder, pictures),
            "Pillow": lambda: pillow(folder / "pictures"),
            "tf.data": lambda: tf_data(folder / "pictures"),
        },
    }


def own(folder: Path, settings: IngestSettings) -> Callable[[], None]:
    """Return a call of the stage."""

    def run() -> None:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            ingest("set", settings, project=folder, out=folder / "out", work=folder / "work")

    return run


def arrow(path: Path) -> None:
    """Read a table with all of Arrow's threads and save its numbers as float32, its labels as numbers."""
    table = csv.read_csv(path) if path.suffix == ".csv" else parquet.read_table(path)
    names = [name for name in table.column_names if name in COLUMNS]
    np.save(path.with_suffix(".npy"), np.stack([table[name].to_numpy() for name in names], 1).astype(np.float32))
    if "species" in table.column_names:
        encoded = table["species"].combine_chunks().dictionary_encode()
        np.save(path.with_suffix(".label.npy"), encoded.indices.to_numpy().astype(np.int64))


def one(path: Path) -> np.ndarray:
    """Return an image as ingest stores it."""
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB").resize(SIZE[::-1], Image.Resampling.BILINEAR))


def pillow(folder: Path) -> None:
    """Decode and resize in a process for each core; save."""
    paths = sorted(folder.rglob("*.jpg"))
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        np.save(folder.with_suffix(".npy"), np.stack(list(pool.map(one, paths, chunksize=32))))


def tf_data(folder: Path) -> None:
    """Decode and resize with tf.data in parallel; save. Its pixels are others than Pillow's."""
    from tapeline.runtime import startup

    startup.tensorflow()
    import tensorflow as tf

    def decode(path: Any) -> Any:
        return tf.cast(tf.image.resize(tf.io.decode_jpeg(tf.io.read_file(path), channels=3), SIZE), tf.uint8)

    paths = tf.data.Dataset.from_tensor_slices([str(path) for path in sorted(folder.rglob("*.jpg"))])
    batches = paths.map(decode, num_parallel_calls=tf.data.AUTOTUNE).batch(256).prefetch(2)
    np.save(folder.with_suffix(".npy"), np.concatenate(list(batches.as_numpy_iterator())))


def measured(
    kind: str, contenders: dict[str, Callable[[], None]], repeats: int, *, before: Callable[[], None] | None = None
) -> dict[str, Any]:
    """Run all in turn after one that does not count; print a line and return seconds, of the clock and of the CPU.

    before: called before each, and not measured.
    """
    for run in contenders.values():
        run()
    found: dict[str, Any] = {name: {"seconds": [], "cpu": []} for name in contenders}
    for number in range(repeats):
        for name in in_turn(list(contenders), number):
            if before:
                before()
            clock, spent = time.perf_counter(), sum(os.times()[:4])
            contenders[name]()
            found[name]["seconds"].append(time.perf_counter() - clock)
            found[name]["cpu"].append(sum(os.times()[:4]) - spent)
    medians = {name: statistics.median(one["seconds"]) for name, one in found.items()}
    words = []
    for name, one in found.items():
        one |= {"median": medians[name], "spread": spread(one["seconds"])}
        ratio = f"tapeline has {medians[name] / medians['tapeline']:.2f} of its speed" if name != "tapeline" else ""
        steady = max(one["spread"], found["tapeline"]["spread"]) <= STEADY
        cpu = statistics.median(one["cpu"])
        words.append(
            f"{name} {medians[name]:.3f} s ±{one['spread']:.1%}, CPU {cpu:.2f} s {ratio if steady else '(no ratio)'}"
        )
    print(f"{kind:8} {'; '.join(word.strip() for word in words)}", flush=True)
    return found


def empty_page_cache() -> None:
    """Write what is not on the disk yet, then have the kernel forget all files."""
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3")


def spread(seconds: list[float]) -> float:
    """Return half of the range between the quartiles, as a share of the median."""
    if len(seconds) < 2:
        return 0.0
    low, _, high = statistics.quantiles(seconds, n=4, method="inclusive")
    return (high - low) / 2 / statistics.median(seconds)


def start() -> float:
    """Return the seconds that a process takes to import what ingest of tables and images imports: least of three."""
    program = "import tapeline.cli.main, tapeline.ingest.stage, tapeline.ingest.table, tapeline.ingest.image_folder"
    seconds = []
    for _ in range(3):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", program], env=Process.environment(), check=True)
        seconds.append(time.perf_counter() - began)
    return min(seconds)


def age(folder: Path) -> None:
    """Let all files be a minute old: what was written just now is hashed once more, for it may change unnoticed."""
    for path in folder.rglob("*"):
        if path.is_file():
            os.utime(path, (time.time() - 60,) * 2)


def write_tables(folder: Path, rows: int) -> None:
    """Write numbers as CSV and Parquet, and a CSV with labels, without quotes as most programs do."""
    random = np.random.default_rng(0)
    table = pa.table({name: random.normal(size=rows).astype(np.float32) for name in COLUMNS})
    plain = csv.WriteOptions(quoting_style="none")
    csv.write_csv(table, folder / "numbers.csv", plain)
    parquet.write_table(table, folder / "numbers.parquet")
    species = pa.array(np.array(SPECIES)[random.integers(0, len(SPECIES), rows)])
    csv.write_csv(table.select(COLUMNS[:4]).append_column("species", species), folder / "labels.csv", plain)


def write_images(folder: Path, count: int) -> None:
    """Write JPEGs of 320×320 pixels with spots of four, in five classes."""
    made = images(256, (320, 320, 3), grain=4)()["image"]
    for number in range(count):
        path = folder / "train" / f"class {number % 5}" / f"{number:06}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.roll(made[number % len(made)], number, 0)).save(path, quality=85)


if __name__ == "__main__":
    main()
