"""Write the SavedModel and its description; the same bytes for the same weights."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tapeline import files
from tapeline.dataset import Dataset
from tapeline.errors import InputError, RunError
from tapeline.export import check
from tapeline.export.settings import ExportSettings
from tapeline.recipe import Recipe, loading, variables
from tapeline.recipe.trained import load
from tapeline.report import Report

SAVED_MODEL = "saved_model"


def save(
    *,
    name: str,
    recipe: Path,
    params: Mapping[str, Any],
    settings: ExportSettings,
    dataset: Dataset,
    trained: Path,
    validated: Path,
    described: Mapping[str, Any],
    out: Path,
    report: Report,
) -> None:
    """See `tapeline.export.stage.export`; the verdict and the dataset were checked there."""
    built = load(recipe, params, dataset, trained)
    with files.replacing(out) as folder:
        with loading.blaming(recipe, InputError, "does not export"):
            signatures = built.signatures()
            _write_saved_model(built, signatures, folder / SAVED_MODEL)
        report({"event": "note", "text": "checking the SavedModel in a fresh process"})
        with tempfile.TemporaryDirectory() as made:
            inputs = _inputs(built, dataset, described["verdict"]["split"], Path(made))
            _check(folder / SAVED_MODEL, inputs, validated / "predictions.npz", settings.tolerance)
        written = {
            str(path.relative_to(folder)): files.sha256(path) for path in sorted(folder.rglob("*")) if path.is_file()
        }
        model = {
            "name": name,
            "dataset": {"name": dataset.name, "sha256": dataset.fingerprint(), "source": dataset.index["source"]},
            "signatures": {key: _described(function) for key, function in sorted(signatures.items())},
            "files": written,
            **described,
        }
        files.write_json(folder / "model.json", model)


def _write_saved_model(recipe: Recipe, signatures: Mapping[str, Any], folder: Path) -> None:
    """Save the signatures and the variables that they read, in the order of the names; nothing of Keras.

    Keras' own `export` writes names in the order of sets, which follows the hash seed. `fingerprint.pb` holds a
    random identifier and nothing that loading needs.
    """
    module = tf.Module()
    found = variables.find(recipe)
    module.held = [variable for _, variable in sorted({**found.weights, **found.seeds}.items())]
    concrete = {key: function.get_concrete_function() for key, function in sorted(signatures.items())}
    tf.saved_model.save(module, str(folder), signatures=concrete)
    (folder / "fingerprint.pb").unlink()


def _described(function: Any) -> dict[str, Any]:
    concrete = function.get_concrete_function()
    outputs = concrete.structured_outputs
    return {
        "inputs": {spec.name: _type(spec) for spec in function.input_signature},
        "outputs": {name: _type(outputs[name]) for name in sorted(outputs)},
    }


def _type(spec: Any) -> dict[str, Any]:
    return {"dtype": spec.dtype.name, "shape": spec.shape.as_list()}


def _inputs(recipe: Recipe, dataset: Dataset, split: str, folder: Path) -> dict[str, Path]:
    """Return a file of each input that the recorded predictions answer: the dataset's own, or one written here."""
    columns = dataset.columns(split)
    paths = {}
    for name, given in recipe.served(columns).items():
        if given is columns.get(name):
            paths[name] = dataset.path(split, name)
        else:
            paths[name] = folder / f"{name}.npy"
            np.save(paths[name], given)
    return paths


def _check(model: Path, inputs: Mapping[str, Path], predictions: Path, tolerance: float) -> None:
    """Run `check.py` as a program of its own: TensorFlow and NumPy, no line of Tapeline."""
    asked = {
        "model": str(model),
        "inputs": {name: str(path) for name, path in inputs.items()},
        "predictions": str(predictions),
        "tolerance": tolerance,
    }
    program = Path(check.__file__)
    answer = subprocess.run(
        [sys.executable, "-I", str(program)], input=json.dumps(asked), capture_output=True, text=True, check=False
    )
    if answer.returncode:
        said = (answer.stderr or answer.stdout).strip().splitlines()
        raise RunError(f"the exported model failed its check: {said[-1] if said else f'status {answer.returncode}'}")
