"""What the engine costs: its throughput against a bare compiled loop over the same steps.

    python -m benchmarks.engine [--starts 10] [--repeats 6] [--seconds 1]

Both run the same recipe on the same data in the same mode, in one process, a second each in turn: drift of the machine
affects both alike, and pairs from which other virtual machines stole time do not count. Both are rebuilt in each start,
because two identical builds differ by up to 5 % for as long as they live. Bare is a hand-written `tf.while_loop` with a
gather from memory, and draws in the compiled step what the recipe's `prepare` draws. The engine has everything on:
indices by tf.data, exact metrics, guard, snapshots, history, progress file, and a checkpoint every five seconds; its
last hook blocks it while bare runs, except for work pending in its threads. Compilation is not counted. The ratio is
the mean over the starts of the median over their pairs.
"""

import argparse
import io
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from tapeline.runtime import startup

startup.tensorflow()

import numpy as np
import tensorflow as tf

from benchmarks import machine, program
from benchmarks.catalogue import workload
from benchmarks.inputs import write_dataset
from benchmarks.workload import Recipe, Workload
from tapeline.config.train import CheckpointPolicy
from tapeline.dataset.columns import Dataset
from tapeline.recipe import Context, loading
from tapeline.recipe.autograph import convert
from tapeline.recipe.context import running
from tapeline.recipe.metrics import sums_and_counts
from tapeline.runtime.progress import Progress
from tapeline.runtime.records import LoopEnded, Record
from tapeline.train.job import Job
from tapeline.train.observers.standard import standard
from tapeline.train.stage import train

WORKLOADS = {
    "mlp xla": ("mlp", "xla"),
    "mlp graph": ("mlp", "graph"),
    "cnn graph": ("cnn", "graph"),
    "gan xla": ("gan", "xla"),
    "seq2seq_lstm xla": ("seq2seq_lstm", "xla"),
    "seq2seq_lstm graph": ("seq2seq_lstm", "graph"),
}
"""Name → the workload of `benchmarks/workloads` whose recipe and data are used, and the compile mode."""

PAUSE = 5.0
"""Seconds to wait after a pair that other virtual machines disturbed: they are busy for minutes."""


def main() -> None:
    """Measure every workload; print a line and write a file for each."""
    parser = program.parser(__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="of a turn, about")
    parser.add_argument("--starts", type=int, default=10, help="how often both are built")
    parser.add_argument("--repeats", type=int, default=6, help="turns of each in a start")
    parser.add_argument("--only", choices=list(WORKLOADS), help="one of the workloads")
    options = parser.parse_args()
    for name, (which, mode) in WORKLOADS.items():
        if options.only not in (None, name):
            continue
        with tempfile.TemporaryDirectory() as folder:
            record = measure(name, Path(folder), options, workload(which), mode)
        program.write(options.out, record)


def measure(name: str, folder: Path, options: argparse.Namespace, chosen: Workload, mode: str) -> dict[str, Any]:
    """Run both in turn; print the mean of the starts' ratios."""
    data, recipe = inputs(folder, chosen, mode)
    starts, again = [], 0
    for number in range(options.starts):
        turns = Turns(Bare(recipe, data), options.seconds, options.repeats)
        engine(folder / str(number), recipe, data, turns)
        starts.append(turns.pairs)
        again += turns.again
    ratios = [statistics.median(engine / bare for engine, bare in pairs) for pairs in starts]
    engines, bares = zip(*chain.from_iterable(starts), strict=True)
    record = {
        "workload": "engine_" + name.replace(" ", "_"),
        "engine": statistics.median(engines),
        "bare": statistics.median(bares),
        "ratio": statistics.mean(ratios),
        "ratios": [round(ratio, 4) for ratio in ratios],
        "again": again,
    }
    line = f"{name:18}  bare {record['bare']:8.1f}  engine {record['engine']:8.1f} steps/s  ratio {record['ratio']:.3f}"
    print(f"{line}, starts from {min(ratios):.3f} to {max(ratios):.3f}, {again} pairs disturbed", flush=True)
    return record


def inputs(folder: Path, chosen: Workload, mode: str) -> tuple[Dataset, Recipe]:
    """Return a workload's data, written to the folder, and its recipe in a mode."""
    data = write_dataset(folder / "data", chosen.columns())
    return data, replace(chosen.recipe, train={**chosen.recipe.train, "compile": mode})


class Enough(BaseException):
    """All is measured. A `BaseException`, so that the engine does not blame the recipe for it."""


class Turns:
    """The engine's last hook: lets the engine run for a turn, then bare for as many steps."""

    def __init__(self, bare, seconds, repeats):
        self.bare, self.seconds, self.repeats = bare, seconds, repeats
        self.pairs, self.again = [], 0
        self.spent, self.steps, self.resumed, self.began = 0.0, 0, None, {}

    def __call__(self, record):
        if not isinstance(record, LoopEnded):
            return
        if self.resumed is None:  # the first loop compiled
            self.bare.run(50)
        else:
            self.spent += time.perf_counter() - self.resumed
            self.steps += record.step - record.start
        if self.spent >= self.seconds:
            pair = (self.steps / self.spent, self.bare.run(self.steps))
            if machine.disturbed(self.began):
                self.again += 1
                time.sleep(PAUSE)
            else:
                self.pairs.append(pair)
            if len(self.pairs) == self.repeats:
                raise Enough
            if self.again == 10 * self.repeats:
                raise SystemExit("other virtual machines are busy: measure another time")
            self.spent, self.steps = 0.0, 0
        if not self.steps:
            self.began = machine.ticks()
        self.resumed = time.perf_counter()


class Bare:
    """The bare loop."""

    def __init__(self, recipe: Recipe, data: Dataset) -> None:
        self.recipe = loading.build(recipe.path, recipe.params, data.features)
        batch = recipe.settings().batch_size
        self.recipe.configure(batch_size=batch)
        self.columns = {name: tf.constant(data.column("train", name)) for name in data.features}
        order = np.random.default_rng(1).integers(0, data.examples("train"), (65_536, batch))
        self.indices = tf.constant(order.astype(np.int32))  # more rows than a turn has steps
        self.prepare, self.step = convert(self.recipe.prepare), convert(self.recipe.train_step)
        self.loop = tf.function(self._loop, jit_compile=recipe.settings().compile == "xla", autograph=False)

    def run(self, steps: int) -> float:
        """Return steps per second; the first call compiles."""
        began = time.perf_counter()
        self.loop(self.indices, tf.constant(steps)).numpy()
        return steps / (time.perf_counter() - began)

    def _loop(self, indices: tf.Tensor, count: tf.Tensor) -> tf.Tensor:
        def step(number: tf.Tensor) -> tf.Tensor:
            index, context = tf.gather(indices, number), Context(tf.cast(number, tf.int64), tf.constant([0, 0]))
            batch = self.prepare({name: tf.gather(column, index) for name, column in self.columns.items()}, context)
            with running(context):
                return sums_and_counts(self.step(batch, context))[1]

        return tf.while_loop(
            lambda number, *_: number < count - 1,
            lambda number, sums: (number + 1, sums + step(number)),
            (0, step(tf.constant(0))),
            parallel_iterations=1,
        )[1]


def engine(
    folder: Path, recipe: Recipe, data: Dataset, hook: Callable[[Record], object], *, every: float = 5.0
) -> None:
    """Train until the hook raises `Enough`. every: the seconds between two checkpoints."""
    settings = recipe.settings().model_copy(update={"checkpoint": CheckpointPolicy(every_seconds=every)})
    sys.stderr, held = io.StringIO(), sys.stderr
    try:
        with Progress(folder / "progress.jsonl") as report, suppress(Enough):
            train(
                Job(
                    recipe=recipe.path,
                    params=recipe.params,
                    settings=settings,
                    data=data.folder,
                    out=folder / "out",
                    checkpoints=folder / "checkpoints",
                    traces=folder / "traces",
                    observers=standard(report),
                    hooks=[hook],
                )
            )
    finally:
        sys.stderr = held


if __name__ == "__main__":
    main()
