"""Inspect a folder of images and propose a dataset and a pipeline for it."""

from pathlib import Path
from typing import Any

from tapeline.dataset import columns
from tapeline.ingest.remarks import named
from tapeline.runtime import files
from tapeline.runtime.errors import InputError
from tapeline.scaffold.naming import free_name
from tapeline.scaffold.proposal import Proposal, class_name, template
from tapeline.scaffold.trial import passed

LARGEST = 64
"""Maximum side in pixels: a first model should train in minutes."""
SMALLEST = 8
MOST_DECODED = 1000
"""Images to train on with which all are decoded once; of more, ingest's survey reads the names and headers."""


def propose(path: Path, needs: str, folder: Path) -> Proposal:
    """Return a proposal for a folder `<split>/<class>/<image>`. Raises `InputError` for what ingest refuses."""
    from tapeline.ingest.pixels import decoded

    train = [file for file in listed(path) if file.parts[-3] == "train"]
    if not train:
        if part := next(path.rglob("*.parquet"), None):
            where = part.relative_to(path).as_posix()
            raise InputError(f"{path} has {where}, and a table is one file: give that, or write all parts into one")
        if (path / columns.INDEX).is_file():
            raise InputError(
                f"{path} is a dataset that a project has ingested: in a project, give it an entry under `datasets` of "
                "params.yaml, `{source: dataset, needs: FOLDER}`, and `tapeline new recipe NAME --dataset DATASET`"
            )
        raise InputError(f"{path} has no train/<class>/<image>: sort the images by split, then by class")
    try:
        with files.opened(train[0]) as file, decoded(file, str(train[0])) as image:
            side = max(SMALLEST, min(LARGEST, *image.size))
    except PermissionError:
        raise InputError(f"{train[0]} cannot be read by this user: allow it with `chmod u+r`") from None
    if not (path / "test").is_dir():
        raise InputError(
            f"{path} has no test/<class>/<image>: a model is measured on images that it was not trained on"
        )
    dataset: dict[str, Any] = {"source": "images", "needs": needs, "size": [side, side]}
    if not any((path / split).is_dir() for split in ("val", "validation")):
        dataset["validation"] = 0.15
    trial = passed(dataset, path, whole=len(train) <= MOST_DECODED)
    name, renamed = free_name(folder, path.name)
    return Proposal(
        name,
        trial.dataset,
        {"learning_rate": 0.001},
        {"epochs": 20, "batch_size": trial.batch_size(32)},
        template("images.py", input="image", target="label", title=class_name(name, "Images")),
        (
            f"classifies images into {trial.classes} classes, at {side}×{side} pixels",
            *trial.said,
            *_hidden(path),
            *renamed,
        ),
    )


def listed(path: Path) -> list[Path]:
    """Return the files `<split>/<class>/<image>`, in folders that are links too, without names that begin with a dot.

    These are the ones that ingest reads.
    """
    found = path.glob("*/*/*")
    return sorted(file for file in found if file.is_file() and not any(part[0] == "." for part in file.parts[-3:]))


def _hidden(path: Path) -> tuple[str, ...]:
    """Return a line for the names that are left out, if there are any."""
    inside = [found for depth in ("*", "*/*", "*/*/*") for found in path.glob(depth)]
    names = sorted(found.relative_to(path).as_posix() for found in inside if found.name.startswith("."))
    return (f"ignored, as in ingest, since their names begin with a dot: {named(names)}",) if names else ()
