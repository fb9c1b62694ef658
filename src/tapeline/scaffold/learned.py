"""Which features of a dataset a new recipe learns from."""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from tapeline.config.ingest import ImageFolderSource, IngestSettings, TableSource
from tapeline.config.project import Project
from tapeline.dataset.columns import Dataset
from tapeline.runtime.errors import InputError

MOST_ON_A_LINE = 60


@dataclass(frozen=True)
class Known:
    """What is known about a dataset without ingesting it; nothing if it has no shapes."""

    shapes: Mapping[str, tuple[int, ...]]
    """The shape of each feature."""
    classes: Sequence[str] = ()
    """The features that hold class ids; the first is the label."""
    examples: int | None = None
    """Those of the train split, if ingest has written them."""

    @property
    def label(self) -> str | None:
        """The label, if there is one."""
        return self.classes[0] if self.classes else None

    @property
    def numbers(self) -> list[str]:
        """The features that are a number or a vector of numbers."""
        return [name for name, shape in self.shapes.items() if len(shape) < 2 and name not in self.classes]

    @property
    def targets(self) -> list[str]:
        """The features that are one number."""
        return [name for name in self.numbers if math.prod(self.shapes[name]) == 1]

    @property
    def images(self) -> list[str]:
        """The features that are images: height, width and channels."""
        return [name for name, shape in self.shapes.items() if len(shape) == 3]

    def is_scalar(self, name: str | None) -> bool:
        """Return whether a feature is a number, not a vector."""
        return name is not None and self.shapes.get(name) == ()


def known(project: Project, dataset: str | None, source: IngestSettings | None) -> Known:
    """Return what is known of a dataset: by its settings, else by what ingest has written."""
    found = replace(_all_known(project, dataset, source), examples=_examples(project, dataset))
    if source is None or source.columns is None:
        return found
    kept = {name: shape for name, shape in found.shapes.items() if name in source.columns}
    return replace(found, shapes=kept, classes=[name for name in found.classes if name in kept])


def _examples(project: Project, dataset: str | None) -> int | None:
    """Return how many examples the train split of an ingested dataset has; None if there is none, or it has none."""
    with suppress(InputError):
        ingested = Dataset.open(project.data(dataset)) if dataset is not None else None
        return ingested.examples("train") if ingested and "train" in ingested.splits else None
    return None


def _all_known(project: Project, dataset: str | None, source: IngestSettings | None) -> Known:
    """Return what `known` does, with the features that `columns` leaves out."""
    if isinstance(source, ImageFolderSource):
        return Known({"image": (*source.size, 3), "label": ()}, ["label"])
    if isinstance(source, TableSource):
        columns = {name: () if isinstance(of, str) else (len(of),) for name, of in source.features.items()}
        return Known(columns, [source.label] if source.label else [])
    if dataset is None:
        return Known({})
    try:
        features = Dataset.open(project.data(dataset)).features
    except InputError:  # not ingested yet
        return Known({})
    shapes = {name: feature.shape for name, feature in features.items()}
    return Known(shapes, [name for name, feature in features.items() if feature.classes])


def names_of(inputs: Sequence[str]) -> str:
    """Return the names of several inputs as a tuple of a recipe's text, on one line if they are few."""
    if sum(map(len, inputs)) + 4 * len(inputs) <= MOST_ON_A_LINE:
        return f"({', '.join(map(_quoted, inputs))}{',' * (len(inputs) == 1)})"
    return "(\n" + "".join(f"        {_quoted(name)},\n" for name in inputs) + "    )"


def _quoted(name: str) -> str:
    return f'"{name}"'
