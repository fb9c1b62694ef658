"""Stage 3: check the inputs before TensorFlow is imported; `measure` does the rest."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tapeline.config.validate import ValidateSettings
from tapeline.dataset.columns import Dataset
from tapeline.runtime import startup
from tapeline.runtime.errors import InputError
from tapeline.runtime.progress import Report, silent


def validate(
    *,
    recipe: Path,
    params: Mapping[str, Any],
    settings: ValidateSettings,
    data: Path,
    trained: Path,
    out: Path,
    needs: Path | None = None,
    report: Report = silent,
) -> None:
    """Measure the weights in `trained` on the test split and write metrics, plots, predictions and the verdict.

    needs: the pipeline's further file or folder, the only one of the repository that the recipe may read.

    A verdict of "no" is a result like any other: it is written, and export refuses it.
    Raises `InputError` for missing inputs and for a threshold on a metric that does not exist.
    """
    dataset = Dataset.open(data)
    check_split(dataset, settings)
    if not (trained / "weights").is_dir():
        raise InputError(f"{trained} has no weights: run `tapeline train {trained.parent.name}`")
    dataset.verify()

    startup.tensorflow()
    from tapeline.validate.measure import measure

    measure(
        recipe=recipe,
        params=params,
        settings=settings,
        dataset=dataset,
        trained=trained,
        out=out,
        needs=needs,
        report=report,
    )


def check_split(dataset: Dataset, settings: ValidateSettings) -> None:
    """Raise `InputError` if the dataset lacks the split to be measured."""
    if settings.split not in dataset.splits:
        raise InputError(
            f"validate.split is {settings.split!r}: {dataset.folder} has {', '.join(dataset.splits)}; "
            f"name one of these, or give the dataset a {settings.split} split"
        )
