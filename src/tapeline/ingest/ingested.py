"""A dataset that another project, such as one of the same repository, has ingested, as a source.

Examples have no keys: messages name their position in the split, and the validation split goes by content.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tapeline.config.ingest import IngestedSource
from tapeline.dataset.columns import Dataset, Feature
from tapeline.ingest.source import SPLITS, Examples, Source, chosen_features, piece


def read(settings: IngestedSource, folder: Path) -> Source:
    """Open the folder. Raises `InputError` if it is not a dataset or its bytes are not the recorded ones."""
    dataset = Dataset.open(folder)
    dataset.verify()
    kept = chosen_features(dataset.features, settings.columns, of=f"dataset {dataset.name}")
    features = {name: dataset.features[name] for name in kept}
    splits = tuple(split for split in SPLITS if split in dataset.splits)
    return Source(
        origin=_origin(dataset, kept),
        features=features,
        splits=splits,
        examples=_examples(dataset, splits, features),
        total=sum(map(dataset.examples, splits)),
    )


def _origin(dataset: Dataset, kept: Sequence[str]) -> dict[str, Any]:
    """Return what `dataset.json` says of the source; the columns of a table are those of its own source."""
    origin = {"kind": "dataset", "name": dataset.name, "sha256": dataset.fingerprint()}
    columns = dataset.index["source"].get("columns")
    return origin if columns is None else {**origin, "columns": {name: columns[name] for name in kept}}


def _examples(dataset: Dataset, splits: tuple[str, ...], features: Mapping[str, Feature]) -> Iterator[Examples]:
    size = piece(features)
    for split in splits:
        columns = {name: dataset.column(split, name) for name in features}
        for start in range(0, dataset.examples(split), size):
            pieces = {name: np.asarray(column[start : start + size]) for name, column in columns.items()}
            count = len(next(iter(pieces.values())))
            yield Examples(split, [str(start + place) for place in range(count)], pieces, own_keys=False)
