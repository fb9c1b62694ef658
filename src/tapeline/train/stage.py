"""Stage 2: its inputs are checked here, before TensorFlow is imported (seconds); `run` does the rest."""

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tapeline.config.train import TrainSettings
from tapeline.dataset.columns import Dataset
from tapeline.runtime import startup
from tapeline.runtime.errors import InputError
from tapeline.runtime.progress import Report, silent
from tapeline.train.engine.pace import Pace
from tapeline.train.engine.records import Hook
from tapeline.train.engine.stopping import Leave, leave_at_once
from tapeline.train.options import Options

if TYPE_CHECKING:
    from tapeline.train.checks.rehearsal import Expect


def train(
    *,
    recipe: Path,
    params: Mapping[str, Any],
    settings: TrainSettings,
    data: Path,
    out: Path,
    checkpoints: Path,
    traces: Path,
    options: Options | None = None,
    weights: Path | None = None,
    weights_classes: Mapping[str, tuple[str, ...]] | None = None,
    needs: Path | None = None,
    expect: "Expect | None" = None,
    report: Report = silent,
    hooks: Sequence[Hook] = (),
    pace: Pace | None = None,
    leave: Leave = leave_at_once,
) -> None:
    """Train one pipeline, going on from its newest checkpoint, and replace its outs in `out`.

    traces: a folder for what TensorBoard and the profiler write. weights: the folder that `train.init_from` names.
    weights_classes: label → the class names that these weights know; None when that is not known.
    needs: one more file or folder that the recipe reads; a checkpoint is not used when its content is another.
    expect: called once with what will be answered and measured, before the first step of a run that begins.
    hooks: called with each record, after the engine's own. pace: chooses how many steps a loop has.
    leave: called when a signal could not be obeyed in time; must not return.
    Raises `InputError` for what is wrong before the first step, `RunError` for what fails later, `Interrupted` and
    `LimitReached` with a checkpoint saved. The outs are only touched at the end.
    """
    dataset = opened(data, settings)
    if settings.tensorboard and importlib.util.find_spec("tensorboard") is None:
        raise InputError("train.tensorboard needs a package: `pip install 'tapeline[tensorboard]'`, or set it to false")
    if needs and not needs.exists():
        raise InputError(f"needs names {needs}, which is not there: run the stage that writes it, or `dvc checkout`")

    startup.tensorflow(replicas=settings.replicas)
    from tapeline.train.run import run

    run(
        recipe=recipe,
        params=params,
        settings=settings,
        dataset=dataset,
        out=out,
        checkpoints=checkpoints,
        options=options or Options(),
        weights=weights,
        weights_classes=weights_classes,
        needs=needs,
        expect=expect,
        traces=traces,
        report=report,
        hooks=hooks,
        pace=pace or Pace(),
        leave=leave,
    )


def opened(data: Path, settings: TrainSettings) -> Dataset:
    """Return the dataset, verified. Raises `InputError` when it does not fit the settings."""
    dataset = Dataset.open(data)
    if "train" not in dataset.splits and not settings.steps_per_epoch:
        raise InputError(
            f"{data} has no train split; a recipe that draws its training data needs train.steps_per_epoch"
        )
    if "train" in dataset.splits and settings.steps_per_epoch:
        raise InputError(f"train.steps_per_epoch follows from the train split that {data} has: remove it")
    examples = dataset.examples("train") if "train" in dataset.splits else settings.batch_size
    if settings.batch_size > examples:
        raise InputError(
            f"train.batch_size is {settings.batch_size}: {data} has {examples} training examples, so at most {examples}"
        )
    if settings.best and "val" not in dataset.splits:
        raise InputError(f"train.best needs a val split, which {data} has not: remove it, or set datasets.….validation")
    dataset.verify()
    return dataset
