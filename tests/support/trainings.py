"""Call the train stage as the command line does, on small data, and crash it on purpose."""

import json
import queue
import threading
from collections.abc import Iterable
from pathlib import Path

from tapeline.config.train import TrainSettings
from tapeline.runtime.records import LoopEnded, Note, Saved
from tapeline.train.engine.pace import Pace
from tapeline.train.job import Job
from tapeline.train.observers.standard import standard
from tapeline.train.options import Options
from tapeline.train.stage import train


class Lengths(Pace):
    """A pace with loops of the given lengths in turn, however long they take."""

    def __init__(self, *lengths: int) -> None:
        super().__init__()
        self.lengths, self.length = lengths, lengths[0]
        self.loops = 0

    def took(self, steps, seconds):
        self.loops += 1
        self.length = self.lengths[self.loops % len(self.lengths)]


class Crash(BaseException):
    """Ends a run as SIGKILL would, but in this process: the engine does not handle it."""


def crash_after(step: int):
    """Return a hook that crashes as soon as a checkpoint of `step` or later is on disk.

    It waits for the checkpoint thread a while, and goes on to the next checkpoint if there was none: the thread skips one
    while it writes the one before.
    """
    arrived = threading.Event()

    def hook(record):
        if isinstance(record, Saved) and record.step >= step:
            arrived.set()
        if isinstance(record, LoopEnded) and record.step >= step and arrived.wait(2):
            raise Crash(f"at step {record.step}")

    return hook


def waiting_for_saves(every: int):
    """Return a hook that waits for the checkpoint at every `every` steps, so that none is skipped."""
    saved: queue.Queue[int] = queue.Queue()

    def hook(record):
        if isinstance(record, Saved):
            saved.put(record.step)
        elif isinstance(record, LoopEnded) and record.step % every == 0:
            while saved.get(timeout=120) != record.step:
                pass

    return hook


class Run:
    """One recipe on one dataset, trained into its own folders."""

    def __init__(self, folder: Path, recipe: Path, dataset: Path, params: dict | None = None, **settings) -> None:
        self.folder, self.recipe, self.dataset, self.params = folder, recipe, dataset, params or {}
        self.settings = TrainSettings.model_validate_json(json.dumps(settings))
        self.out, self.checkpoints = folder / "out", folder / "checkpoints"
        self.weights: Path | None = None
        self.weights_classes: dict[str, tuple[str, ...]] | None = None
        self.needs: Path | None = None
        self.expect = None
        self.predicted: str | None = None
        self.notes: list[str] = []

    def __call__(self, *, hooks: Iterable = (), pace: Pace | None = None, **options) -> "Run":
        """Train, and keep the notes."""
        self.notes = []
        listen = [lambda record: self.notes.append(record.text) if isinstance(record, Note) else None]
        train(
            Job(
                recipe=self.recipe,
                params=self.params,
                settings=self.settings,
                data=self.dataset,
                out=self.out,
                checkpoints=self.checkpoints,
                traces=self.folder / "traces",
                options=Options(**options),
                weights=self.weights,
                weights_classes=self.weights_classes,
                needs=self.needs,
                expect=self.expect,
                predicted=self.predicted,
                observers=standard(),
                hooks=[*listen, *hooks],
                pace=pace or Pace(),
            )
        )
        return self

    def outs(self) -> dict[str, bytes]:
        """Return the bytes of every output."""
        return {p.relative_to(self.out).as_posix(): p.read_bytes() for p in sorted(self.out.rglob("*")) if p.is_file()}

    def saved(self) -> list[Path]:
        """Return the checkpoints on disk."""
        return sorted(self.checkpoints.rglob("step-*"))


def outs(folder: Path, name: str) -> dict[str, bytes]:
    """Return the bytes of every output that the train stage of a project has made."""
    return {p.name: p.read_bytes() for p in sorted((folder / "runs" / name / "train").rglob("*")) if p.is_file()}


def steps(recipe: Path, dataset: Path, count: int = 1, **settings):
    """Return what a run is assembled of, after its first steps."""
    import tensorflow as tf

    from tapeline.dataset.columns import Dataset
    from tapeline.train.assembly import assemble

    given = TrainSettings.model_validate({"epochs": 1, "batch_size": 16, **settings})
    parts = assemble(recipe, {}, given, Dataset.open(dataset))
    for chunk in parts.feed.chunks(0, count):
        parts.loop(chunk, chunk.first, chunk.end, tf.zeros([len(parts.loop.names), 2], tf.float64))
    return parts
