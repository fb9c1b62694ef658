"""A model's answers: which outputs are written, the names of classes, and what is not finite."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapeline.prediction.signature import shortened
from tapeline.runtime.errors import InputError

CLASS, CLASS_NAME = "class", "class_name"
INNER = ("features", "logits")
"""Outputs for further computation: written only if asked for, or if there is nothing else."""

Answers = dict[str, NDArray[Any]]


def available(outputs: Mapping[str, str], classes: Sequence[str]) -> list[str]:
    """Return the names that can be written: the outputs, sorted, and `class_name` if `class` indexes known classes.

    outputs: name → dtype, as in `model.json`.
    """
    return [*sorted(outputs), *([CLASS_NAME] if _nameable(outputs, classes) else [])]


def chosen(names: Sequence[str], asked: Sequence[str]) -> list[str]:
    """Return those of the available names that are written.

    asked: names, or beginnings of names; empty for all but `INNER`. Raises `InputError` for one that nothing matches.
    """
    if not asked:
        return [name for name in names if name not in INNER] or list(names)
    found: set[str] = set()
    for word in asked:
        matches = [word] if word in names else [name for name in names if word and name.startswith(word)]
        if not matches:
            raise InputError(
                f"--outputs has {word!r}, but the model's outputs are {shortened(names)}: choose from these"
            )
        found.update(matches)
    return [name for name in names if name in found]


def named(answers: Mapping[str, NDArray[Any]], classes: Sequence[str]) -> Answers:
    """Return the answers with an added `class_name` if `class` indexes known classes.

    classes: their names, in index order; an index out of range has an empty name.
    """
    if not _nameable({name: values.dtype.name for name, values in answers.items()}, classes):
        return dict(answers)
    indices = answers[CLASS]
    known = (indices >= 0) & (indices < len(classes))
    return {**answers, CLASS_NAME: np.array([*classes, ""])[np.where(known, indices, len(classes)).astype(np.int64)]}


def _nameable(outputs: Mapping[str, str], classes: Sequence[str]) -> bool:
    return bool(classes) and CLASS_NAME not in outputs and "int" in outputs.get(CLASS, "")


def not_finite(columns: Mapping[str, NDArray[Any]]) -> list[int]:
    """Return the indices of the examples with a NaN or infinity. columns: values, shape (examples, ...), by name."""
    rows: set[int] = set()
    for values in columns.values():
        if values.dtype.kind in "fc" and not (finite := np.isfinite(values)).all():
            rows |= set(np.flatnonzero(~finite.reshape(len(values), -1).all(axis=1)).tolist())
    return sorted(rows)
