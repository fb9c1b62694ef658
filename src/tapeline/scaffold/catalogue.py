"""Look at a dataset of the TFDS catalogue and propose a dataset and a pipeline for it."""

from pathlib import Path
from typing import Any

from tapeline.runtime.errors import InputError
from tapeline.scaffold.naming import free_name
from tapeline.scaffold.proposal import Proposal, class_name, template

SCHEME = "tfds:"
SMALLEST = 8
"""The least side in pixels that the recipe's three poolings take."""


def propose(name: str, work: Path, folder: Path) -> Proposal:
    """Return a proposal for a dataset such as `mnist` or `cifar10:3.0.2`, at the version that TFDS has.

    work: a folder for TFDS's use. folder: the project's. Nothing is downloaded. Raises `InputError` for an unknown
    name, and for a dataset that is not pictures of one size with a label.
    """
    from tapeline.ingest import tfds_catalogue

    builder = tfds_catalogue.known(name, work)
    image, label = _features(name, builder)
    config = f"/{builder.builder_config.name}" if builder.builder_config else ""
    full, (short, said) = f"{builder.name}{config}:{builder.version}", free_name(folder, builder.name)
    dataset: dict[str, Any] = {"source": "tfds", "needs": f"data/raw/{short}.tfds", "name": full}
    dataset |= {"columns": [image, label], "validation": 0.1}
    return Proposal(
        short,
        dataset,
        {"learning_rate": 0.001},
        {"epochs": 20, "batch_size": 32},
        template("images.py", input=image, target=label, title=class_name(short, "Images")),
        (f"classifies the images of {full}, which the first `dvc repro` downloads", *said),
    )


def _features(name: str, builder: Any) -> tuple[str, str]:
    """Return the names of the picture and the label."""
    import tensorflow_datasets as tfds

    features = builder.info.features
    found = features.items() if isinstance(features, tfds.features.FeaturesDict) else ()
    images = [key for key, feature in found if isinstance(feature, tfds.features.Image) and _is_fixed(feature.shape)]
    labels = [key for key, feature in found if isinstance(feature, tfds.features.ClassLabel)]
    if not images or not labels:
        raise InputError(
            f"{name} is not a set of labelled images of one size: write the dataset's entry and recipe by hand"
        )
    return images[0], labels[0]


def _is_fixed(shape: tuple[int | None, ...]) -> bool:
    return len(shape) == 3 and all(shape) and min(side or 0 for side in shape[:2]) >= SMALLEST
