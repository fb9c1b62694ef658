"""Take a proposed dataset through ingest's own checks, before anything is written."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tapeline.config.params import Params, checked
from tapeline.config.project import PARAMS
from tapeline.ingest.checks import check
from tapeline.ingest.source import Source
from tapeline.ingest.split import cut
from tapeline.ingest.stage import opened
from tapeline.runtime.errors import InputError


@dataclass(frozen=True)
class Passed:
    """The result of trying a proposed dataset."""

    dataset: dict[str, Any]
    """Its entry, without `validation` where too few examples are there to cut it from."""
    classes: int
    said: tuple[str, ...] = ()
    train: int | None = None
    """Examples to train on, if they were counted."""

    def batch_size(self, wanted: int) -> int:
        """Return a batch size that training takes: there is at least one batch."""
        return wanted if self.train is None else min(wanted, self.train)


def passed(dataset: dict[str, Any], path: Path, *, whole: bool = True) -> Passed:
    """Return what ingest makes of a dataset. path: the data, wherever they are yet.

    whole: read all examples, too, and count them; otherwise they are taken for too many to leave a split empty.
    Raises `InputError` as ingest does, and for data without examples to test with.
    """
    settings = checked(Params, {"datasets": {"it": dataset}, "pipelines": {}}, where=PARAMS).dataset("it")
    with opened(settings, path, work=path.parent) as source:
        classes = max((len(feature.classes or ()) for feature in source.features.values()), default=0)
        for split in ("train", "test"):
            if split not in source.splits:
                raise InputError(f"{path} has no {split} split: a model is trained on `train` and tested on `test`")
        if not whole:
            return Passed(dataset, classes)
        counts = _counts(source, settings.validation)
    learned = counts["train"] + counts["val"]
    if not learned or not counts["test"]:
        found = f"{counts['test']} of {counts.total()} rows"
        raise InputError(
            f"{path}: the content of a row decides whether it is in `test`, here {found}: too few rows differ"
        )
    if not settings.validation or (counts["train"] and counts["val"]):
        return Passed(dataset, classes, train=counts["train"])
    left = {key: value for key, value in dataset.items() if key != "validation"}
    return Passed(left, classes, (f"no validation split: {learned} examples are too few",), learned)


def _counts(source: Source, validation: float) -> Counter[str]:
    """Return the number of examples in each split, all of them checked."""
    counts: Counter[str] = Counter()
    for piece in source.examples:
        check(piece, source.features)
        for examples in cut(piece, validation, source.features):
            counts[examples.split] += len(examples.keys)
    return counts
