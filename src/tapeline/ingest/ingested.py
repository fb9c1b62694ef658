"""A dataset that another project, such as one of the same repository, has ingested, as a source.

Examples have no keys: messages name their position in the split, and the validation split goes by content. So it is
refused where a table's rows of one key were to stay together.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tapeline.config.ingest import IngestedSource
from tapeline.dataset.columns import Dataset, Feature
from tapeline.ingest.source import SPLITS, Examples, Source, chosen_features, piece
from tapeline.runtime.errors import InputError

IMAGES = "images"
"""The kind of a source that is a folder of images."""


def read(settings: IngestedSource, folder: Path) -> Source:
    """Open the folder. Raises `InputError` if it is not a dataset or its bytes are not the recorded ones."""
    dataset = Dataset.open(folder)
    dataset.verify()
    kept = chosen_features(dataset.features, settings.columns, of=f"dataset {dataset.name}")
    features = {name: dataset.features[name] for name in kept}
    splits = tuple(split for split in SPLITS if split in dataset.splits)
    if settings.validation and "val" not in splits:
        _refuse_parted(dataset, settings.validation)
    return Source(
        origin=_origin(dataset, kept),
        features=features,
        splits=splits,
        examples=_examples(dataset, splits, features),
        total=sum(map(dataset.examples, splits)),
    )


def _refuse_parted(dataset: Dataset, validation: float) -> None:
    """Raise `InputError` if the rows of one key were to stay together, which a cut by content would part."""
    if (key := dataset.index["source"].get("key")) is not None:
        raise InputError(
            f"dataset {dataset.name!r} comes from a table whose rows with the same {key!r} stay together, but has no "
            f"keys by which to cut `validation: {validation}`: cut it where the table is ingested"
        )


def _origin(dataset: Dataset, kept: Sequence[str]) -> dict[str, Any]:
    """Return what `dataset.json` says of the source, with what is known of the first one, however often it was copied.

    That is the columns and the key of a table, and whether it was a folder of images.
    """
    origin: dict[str, Any] = {"kind": "dataset", "name": dataset.name, "sha256": dataset.fingerprint()}
    first = dataset.index["source"]
    if (columns := first.get("columns")) is not None:
        origin["columns"] = {name: columns[name] for name in kept}
    if (key := first.get("key")) is not None:
        origin["key"] = key
    if IMAGES in (first.get("kind"), first.get("made_of")):
        origin["made_of"] = IMAGES
    return origin


def _examples(dataset: Dataset, splits: tuple[str, ...], features: Mapping[str, Feature]) -> Iterator[Examples]:
    size = piece(features)
    for split in splits:
        columns = {name: dataset.column(split, name) for name in features}
        for start in range(0, dataset.examples(split), size):
            pieces = {name: np.asarray(column[start : start + size]) for name, column in columns.items()}
            count = len(next(iter(pieces.values())))
            yield Examples(split, [str(start + place) for place in range(count)], pieces, own_keys=False)
