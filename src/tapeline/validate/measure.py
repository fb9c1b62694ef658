"""Predict the test split by the very function that will be exported, and measure what came out."""

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tapeline import files
from tapeline.dataset import Dataset
from tapeline.errors import InputError
from tapeline.recipe import Recipe, loading, predicting
from tapeline.recipe.evaluation import Evaluation
from tapeline.recipe.trained import load
from tapeline.report import Report
from tapeline.validate import classification
from tapeline.validate.settings import ValidateSettings
from tapeline.validate.verdict import judge


def measure(
    *,
    recipe: Path,
    params: Mapping[str, Any],
    settings: ValidateSettings,
    dataset: Dataset,
    trained: Path,
    out: Path,
    report: Report,
) -> None:
    """See `tapeline.validate.stage.validate`; the dataset was opened and verified there."""
    built = load(recipe, params, dataset, trained)
    report({"event": "progress", "done": 0, "total": dataset.examples(settings.split), "unit": "examples"})
    with loading.blaming(recipe, InputError, "fails in validation"):
        key = tf.constant([0, 0], tf.int32)
        metrics = Evaluation(built, dataset, settings.split, batch_size=settings.batch_size, key=key)()
        signature = built.signatures()[predicting.DEFAULT]
        predicted = predicting.predictions(signature, dataset, settings.split, settings.batch_size)
    plots: dict[str, str] = {}
    details: dict[str, Any] = {}
    if labels := _labels(built, dataset, settings.split):
        further, details, plots = _classifier(predicted, *labels, settings.calibration_bins)
        metrics |= further
    verdict = {"split": settings.split, **judge(metrics, settings.thresholds)}
    with files.replacing(out / "plots") as folder:
        for name, text in plots.items():
            files.write_text(folder / name, text)
    files.write_bytes(out / "predictions.npz", _npz(predicted))
    files.write_json(out / "metrics.json", {**dict(sorted(metrics.items())), **details})
    files.write_json(out / "verdict.json", verdict)
    report({"event": "validated", "metrics": metrics, "verdict": verdict["verdict"]})
    print(f"verdict: {verdict['verdict']}" + (f": {verdict['reason']}" if verdict["reason"] else ""))


def _labels(recipe: Recipe, dataset: Dataset, split: str) -> tuple[NDArray[Any], tuple[str, ...]] | None:
    """Return the true classes and their names when the recipe foretells a class."""
    if recipe.target is None or not (classes := dataset.features[recipe.target].classes):
        return None
    return np.asarray(dataset.column(split, recipe.target)), classes


def _classifier(
    predicted: Mapping[str, NDArray[Any]], labels: NDArray[Any], classes: tuple[str, ...], bins: int
) -> tuple[dict[str, float], dict[str, Any], dict[str, str]]:
    """Return a classifier's further metrics, the figures of each class, and its plots."""
    if missing := {"class", "probabilities"} - predicted.keys():
        raise InputError(f"predict of a recipe whose target is a class must return {', '.join(sorted(missing))}")
    chosen = predicted["class"]
    figures = classification.per_class(labels, chosen, classes)
    error, diagram = classification.calibration(labels, predicted["probabilities"], bins)
    metrics = {
        "calibration_error": error,
        **{
            f"macro_{name}": float(np.mean([row[name] for row in figures.values()]))
            for name in ("precision", "recall", "f1")
        },
    }
    plots = {
        "confusion.csv": classification.confusion_csv(labels, chosen, classes),
        "calibration.csv": classification.calibration_csv(diagram),
    }
    matrix = classification.confusion(labels, chosen, len(classes)).tolist()
    return metrics, {"classes": figures, "confusion": {"classes": list(classes), "counts": matrix}}, plots


def _npz(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return an uncompressed `.npz`; NumPy dates its members 1980, so that the bytes repeat."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()
