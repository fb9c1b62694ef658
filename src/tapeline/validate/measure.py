"""Predict the test split with the exact function that will be exported, and measure the results."""

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tapeline.config.validate import ValidateSettings
from tapeline.dataset.columns import Dataset
from tapeline.parsing import json_text
from tapeline.recipe import Recipe, loading, predicting
from tapeline.recipe.evaluation import Evaluation
from tapeline.recipe.trained import load
from tapeline.runtime import closure, files, files_read, own_files, saved_models
from tapeline.runtime.errors import InputError
from tapeline.runtime.progress import Report
from tapeline.validate import classification, expected, finite, regression
from tapeline.validate.verdict import judge


def measure(
    *,
    recipe: Path,
    params: Mapping[str, Any],
    settings: ValidateSettings,
    dataset: Dataset,
    trained: Path,
    out: Path,
    needs: Path | None,
    report: Report,
) -> None:
    """Do what `tapeline.validate.stage.validate` describes; the dataset was opened and verified there."""
    built = load(recipe, params, dataset, trained)
    report({"event": "progress", "done": 0, "total": dataset.examples(settings.split), "unit": "examples"})
    with files_read.watched() as read, loading.blaming(recipe, InputError, "fails in validation"):
        key = tf.constant([0, 0], tf.int32)
        evaluation = Evaluation(built, dataset, settings.split, batch_size=settings.batch_size, key=key)
        metrics, pictures = evaluation(), evaluation.pictures()
        kind = dataset.features[built.target] if built.target else None
        expected.check_names(built.target, kind.classes if kind else None, metrics)
        signature = built.signatures()[saved_models.DEFAULT]
        given = predicting.served(built, dataset.columns(settings.split))
        predicted = predicting.predictions(signature, given, settings.batch_size)
    known = [recipe, *closure.own(recipe), dataset.folder, trained, out]
    own_files.check(recipe, read, needs, known=known)  # `evaluate` may read what training has not
    further, details, plots = _compared(built, dataset, settings, predicted)
    if "confusion" in details and "counts" not in details["confusion"]:
        note = f"metrics.json counts no pairs of more than {MOST_COUNTED} classes: plots/confusion.csv has each example"
        print(f"note: {note}")
        report({"event": "note", "text": note})
    metrics |= further
    verdict = {"split": settings.split, **judge(metrics, settings.thresholds, finite.faults(predicted))}
    (out / "verdict.json").unlink(missing_ok=True)  # an old one must not stand beside new metrics
    with files.replacing(out / "plots") as folder:
        for name, text in plots.items():
            files.write_text(folder / name, text)
        for name, picture in pictures.items():
            files.write_bytes(folder / f"{name}.png", bytes(tf.io.encode_png(picture).numpy()))
    files.write_bytes(out / "predictions.npz", npz(predicted))
    files.write_json(out / "metrics.json", json_text.as_json({**dict(sorted(metrics.items())), **details}))
    files.write_json(out / "verdict.json", json_text.as_json(verdict))
    print("  ".join(f"{name} {value:.6g}" for name, value in sorted(metrics.items())))
    report({"event": "validated", "metrics": json_text.as_json(metrics), "verdict": verdict["verdict"]})
    print(f"verdict: {verdict['verdict']}" + (f": {verdict['reason']}" if verdict["reason"] else ""))


MOST_COUNTED = 300
"""Classes up to which all pairs of classes are counted: their number grows with the square."""
Compared = tuple[dict[str, float], dict[str, Any], dict[str, str]]
"""Further metrics, structured results, and plots by file name."""


def _compared(
    recipe: Recipe, dataset: Dataset, settings: ValidateSettings, predicted: Mapping[str, NDArray[Any]]
) -> Compared:
    """Compare the predictions with the target, if the recipe has one."""
    target = recipe.target
    if target is None:
        return {}, {}, {}
    actual = np.asarray(dataset.column(settings.split, target))
    kind = dataset.features[target]
    found = {name: predicting.Answer(str(values.dtype), values.shape) for name, values in predicted.items()}
    expected.check_answers(target, kind, found, len(actual))
    if kind.classes:
        expected.check_classes(predicted["class"], kind.classes)
        expected.check_probabilities(predicted["probabilities"])
        return _classifier(predicted, actual, kind.classes, settings.calibration_bins)
    answers = predicted[target]
    return regression.figures(actual, answers), {}, {"predicted.csv": regression.scatter_csv(actual, answers)}


def _classifier(
    predicted: Mapping[str, NDArray[Any]], labels: NDArray[Any], classes: tuple[str, ...], bins: int
) -> Compared:
    """Return a classifier's further metrics, per-class results, and plots."""
    chosen = predicted["class"]
    figures = classification.per_class(labels, chosen, classes)
    error, diagram = classification.calibration(labels, predicted["probabilities"], bins)
    metrics = {"calibration_error": error, **classification.macro(figures)}
    plots = {
        "confusion.csv": classification.confusion_csv(labels, chosen, classes),
        "calibration.csv": classification.calibration_csv(diagram),
    }
    confusion: dict[str, Any] = {"classes": list(classes)}
    if len(classes) <= MOST_COUNTED:
        confusion["counts"] = classification.confusion(labels, chosen, len(classes)).tolist()
    return metrics, {"classes": figures, "confusion": confusion}, plots


def npz(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return an uncompressed `.npz` with reproducible bytes: no timestamps, and no 64-bit sizes that are not needed.

    `numpy.savez` always requests 64-bit sizes, which Python writes differently since 3.11.4.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, array in arrays.items():
            member = io.BytesIO()
            np.save(member, array, allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), member.getvalue())
    return buffer.getvalue()
