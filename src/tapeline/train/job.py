"""One training as it is asked for: what is trained, on what, into which folders."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tapeline.config.train import TrainSettings
from tapeline.runtime import streams
from tapeline.runtime.records import Hook, Note, Record, Skipped, Tell
from tapeline.train.engine.pace import Pace
from tapeline.train.engine.stopping import Leave, leave_at_once
from tapeline.train.options import Options

if TYPE_CHECKING:
    from tapeline.train.checks.rehearsal import Expect


Observers = Callable[["Job", Tell], AbstractContextManager[Sequence[Hook]]]
"""Takes the job and a function that passes a record to every hook; the hooks watch until the block ends."""


@contextmanager
def notes(job: "Job", tell: Tell) -> Iterator[Sequence[Hook]]:
    """Print what should be known on standard error: notes and skipped steps, one line each."""

    def watch(record: Record) -> None:
        if isinstance(record, Note):
            streams.say(record.text, sys.stderr)
        elif isinstance(record, Skipped):
            streams.say(f"step {record.start} skipped: {record.reason}", sys.stderr)

    yield [watch]


@dataclass(frozen=True, kw_only=True)
class Job:
    """The arguments of `train`. Those without a default are required."""

    recipe: Path
    params: Mapping[str, Any]
    """The recipe's hyperparameters, as `params.yaml` has them."""
    settings: TrainSettings
    data: Path
    """The folder that ingest wrote."""
    out: Path
    """Where weights, history and metrics are replaced at the end."""
    checkpoints: Path
    traces: Path
    """A folder for what observers write, such as TensorBoard's files and profiles."""
    options: Options = field(default_factory=Options)
    weights: Path | None = None
    """The folder that `train.init_from` names."""
    weights_classes: Mapping[str, tuple[str, ...]] | None = None
    """Label → the class names that these weights know; None when that is not known."""
    needs: Path | None = None
    """One more file or folder that the recipe reads; a checkpoint is not used when its content differs."""
    expect: "Expect | None" = None
    """Called once with what will be answered and measured, before the first step of a run that begins."""
    predicted: str | None = None
    """The split for which the recipe's `served` is asked at that time too, as validate will; without a validation split
    its metrics are tried on this one."""
    observers: Observers = notes
    """What watches the run. `tapeline.train.observers.standard` has all that the command line shows and writes."""
    hooks: Sequence[Hook] = ()
    """Called with each record after all others; one with a `next_stop` has loops end where it wants to look.

    `Saved`, and the `Note` of a checkpoint that could not be written, come from the thread that writes checkpoints.
    """
    pace: Pace = field(default_factory=Pace)
    """Chooses how many steps a loop has."""
    leave: Leave = leave_at_once
    """Called when a signal could not be obeyed in time; must not return."""
