"""Metrics of a classifier that are not means over examples: precision, recall, confusion and calibration."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

from tapeline.parsing import csv_text

IN_SCRIPT = re.compile(r"<(?=/|!--)")
"""What ends or hides a script: DVC writes the plots' data into one as it is, and data may come from anybody."""


def per_class(labels: NDArray[Any], predicted: NDArray[Any], classes: Sequence[str]) -> dict[str, dict[str, float]]:
    """Return precision, recall, F1 and support of each class; 0 if a class was never predicted or is absent."""
    everything = range(len(classes))
    columns = precision_recall_fscore_support(labels, predicted, labels=everything, zero_division=0.0)
    names = ("precision", "recall", "f1", "support")
    return {
        label: {name: float(column[number]) for name, column in zip(names, columns, strict=True)}
        for number, label in enumerate(classes)
    }


def macro(per_class: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Return the means of what `per_class` returns over the classes, each with the same weight."""
    names = ("precision", "recall", "f1")
    return {f"macro_{name}": float(np.mean([row[name] for row in per_class.values()])) for name in names}


def confusion(labels: NDArray[Any], predicted: NDArray[Any], classes: int) -> NDArray[np.int64]:
    """Return counts of shape (actual, predicted)."""
    counts: NDArray[np.int64] = confusion_matrix(labels, predicted, labels=range(classes))
    return counts


def calibration(labels: NDArray[Any], probabilities: NDArray[Any], bins: int) -> tuple[float, list[dict[str, float]]]:
    """Return the expected calibration error and its reliability diagram (Guo et al. 2017).

    probabilities: shape (examples, classes). The error is the mean over examples of |accuracy - confidence| of
    their bin; bins have equal width in the confidence of the predicted class, and empty ones are left out.
    NaN and no diagram if a probability is not finite, because such an example is in no bin.
    """
    if not np.isfinite(probabilities).all():
        return float("nan"), []
    confidence = probabilities.max(axis=1).astype(np.float64)
    correct = (probabilities.argmax(axis=1) == labels).astype(np.float64)
    number = np.minimum((confidence * bins).astype(int), bins - 1)
    diagram, error = [], 0.0
    for index in range(bins):
        inside = number == index
        if inside.any():
            mean, accuracy = float(confidence[inside].mean()), float(correct[inside].mean())
            error += float(inside.mean()) * abs(accuracy - mean)
            diagram.append({"confidence": mean, "accuracy": accuracy, "examples": int(inside.sum())})
    return error, diagram


def confusion_csv(labels: NDArray[Any], predicted: NDArray[Any], classes: Sequence[str]) -> str:
    """Return one line per example, `actual,predicted`, as DVC's confusion template counts them."""
    names = [IN_SCRIPT.sub("<\\\\", name) for name in classes]
    rows = ([names[a], names[p]] for a, p in zip(labels, predicted, strict=True))
    return csv_text.table(["actual", "predicted"], rows)


def calibration_csv(diagram: Sequence[dict[str, float]]) -> str:
    """Return the reliability diagram, one line per bin."""
    names = ["confidence", "accuracy", "examples"]
    return csv_text.table(names, ([row[name] for name in names] for row in diagram))
