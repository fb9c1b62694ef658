"""Stage 2: check the inputs before TensorFlow is imported (seconds); `run` does the rest."""

import importlib.util
from pathlib import Path

from tapeline.config.train import TrainSettings
from tapeline.dataset.columns import Dataset
from tapeline.runtime import closure, own_files, own_modules, startup
from tapeline.runtime.errors import InputError
from tapeline.train.job import Job


def train(job: Job) -> None:
    """Train one pipeline, resuming from its newest checkpoint, and replace its outputs in `job.out`.

    Raises `InputError` for what is wrong before the first step, `RunError` for what fails later, `Interrupted` and
    `LimitReached` with a checkpoint saved. The outputs are only touched at the end.
    """
    dataset = opened(job.data, job.settings)
    if job.settings.tensorboard and importlib.util.find_spec("tensorboard") is None:
        raise InputError(
            "train.tensorboard needs a package: install tensorboard in this environment, or set it to false"
        )
    if job.needs and not job.needs.exists():
        raise InputError(
            f"needs names {job.needs}, which does not exist: run the stage that writes it, or `dvc checkout`"
        )

    own_modules.use(job.recipe)
    own_modules.check(job.recipe, closure.own(job.recipe), job.needs)
    if job.needs:
        own_files.note_outputs(job.recipe, job.needs)
    startup.tensorflow(threads=job.settings.operation_threads, portable=job.settings.bits == "portable")
    from tapeline.train.run import run

    run(job, dataset)


def opened(data: Path, settings: TrainSettings) -> Dataset:
    """Return the dataset, verified. Raises `InputError` if it does not fit the settings."""
    dataset = Dataset.open(data)
    if "train" not in dataset.splits and not settings.steps_per_epoch:
        raise InputError(
            f"{data} has no train split; a recipe that draws its training data needs train.steps_per_epoch"
        )
    if "train" in dataset.splits and settings.steps_per_epoch:
        raise InputError(f"train.steps_per_epoch follows from the train split in {data}: remove it")
    examples = dataset.examples("train") if "train" in dataset.splits else settings.batch_size
    if settings.batch_size > examples:
        raise InputError(f"train.batch_size is {settings.batch_size}: {data} has only {examples} training examples")
    if settings.best and "val" not in dataset.splits:
        raise InputError(f"train.best needs a val split, which {data} lacks: remove it, or set datasets.….validation")
    dataset.verify()
    return dataset
