"""Write the SavedModel and its description; the same bytes for the same weights."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tapeline.config.export import ExportSettings, Precision
from tapeline.dataset.columns import Dataset
from tapeline.export import empty_batches, litert, tables, warm_up
from tapeline.export.checking import Checker
from tapeline.parsing import arrays
from tapeline.recipe import Recipe, loading, predicting, variables
from tapeline.recipe.contract import Columns
from tapeline.recipe.trained import load
from tapeline.runtime import files, scratch, tensorflow_files
from tapeline.runtime.errors import InputError
from tapeline.runtime.progress import Report

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
    batch_size: int,
    checker: Checker,
    report: Report,
) -> None:
    """Do what `tapeline.export.stage.export` describes; the verdict and the dataset were checked there."""
    built = load(recipe, params, dataset, trained)
    with files.replacing(out) as folder:
        with loading.blaming(recipe, InputError, "does not export"):
            plain = built.signatures()
            signatures = {key: empty_batches.answering(function) for key, function in plain.items()}
            _write_saved_model(built, signatures, folder / SAVED_MODEL)
            split = described["verdict"]["split"]
            columns = dataset.columns(split)
            served = predicting.served(built, columns)
            given = {**columns, **served}
            if refused := empty_batches.refused_padded(plain, signatures, _requests(signatures, given, 0)):
                signatures |= refused
                _write_saved_model(built, signatures, folder / SAVED_MODEL)
        warm_up.write(folder / SAVED_MODEL, name, _requests(signatures, given, settings.examples))
        report({"event": "note", "text": "checking the SavedModel in a fresh process"})
        with scratch.folder("export") as made:
            inputs = _inputs(served, columns, dataset, split, made)
            checker.compare(folder / SAVED_MODEL, inputs, validated / "predictions.npz", settings.tolerance, batch_size)
        lite = _litert(built, plain, settings.litert, folder, served, columns, validated / "predictions.npz")
        own = _own_inputs(served, columns)
        more = {**described, **lite, **({"own_inputs": own} if own else {})}
        files.write_json(folder / "model.json", _model(name, dataset, signatures, folder, more))
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 2**20
    count = len(next(iter(served.values())))
    keys = ", ".join(sorted(signatures))
    print(f"exported {out.parent.name}/{out.name}: {size:.2f} MB, {keys}; {count} predictions match validate")


def _model(
    name: str, dataset: Dataset, signatures: Mapping[str, Any], folder: Path, more: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the content of `model.json`. folder: with all other files of the model."""
    written = {
        str(path.relative_to(folder)): files.sha256(path) for path in sorted(folder.rglob("*")) if path.is_file()
    }
    return {
        "name": name,
        "dataset": {"name": dataset.name, "sha256": dataset.fingerprint(), "source": dataset.index["source"]},
        "signatures": {key: _described(function) for key, function in sorted(signatures.items())},
        "files": written,
        **more,
    }


def _write_saved_model(recipe: Recipe, signatures: Mapping[str, Any], folder: Path) -> None:
    """Save the signatures and the recipe's weights and seed states, in the order of names, without Keras objects.

    Keras' `export` writes names in set order, which depends on the hash seed. `fingerprint.pb` holds a random
    identifier and nothing that loading needs.
    """
    module = tf.Module()
    found = variables.find(recipe)
    module.held = [variable for _, variable in sorted({**found.weights, **found.seeds}.items())]
    concrete = {key: function.get_concrete_function() for key, function in sorted(signatures.items())}
    if found_tables := tables.read_by(concrete.values(), recipe, found.all().values()):
        module.tables = found_tables
    folder.mkdir(exist_ok=True)
    with tensorflow_files.disk_errors():
        tf.saved_model.save(module, str(folder), signatures=concrete)
    tensorflow_files.share(folder)
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


def _inputs(served: Columns, columns: Columns, dataset: Dataset, split: str, folder: Path) -> dict[str, Path]:
    """Return a file for each input of the recorded predictions: the dataset's own, or one written here."""
    paths = {}
    for name, given in served.items():
        if given is columns.get(name):
            paths[name] = dataset.path(split, name)
        else:
            paths[name] = folder / f"{name}.npy"
            np.save(paths[name], arrays.storable(given), allow_pickle=False)
    return paths


def _own_inputs(served: Columns, columns: Columns) -> list[str]:
    """Return the inputs that have a feature's name but other values; see `Recipe.served`."""
    both = sorted(served.keys() & columns.keys())
    return [n for n in both if served[n] is not columns[n] and not np.array_equal(served[n], columns[n])]


def _requests(signatures: Mapping[str, Any], given: Columns, count: int) -> dict[str, dict[str, NDArray[Any]]]:
    """Return the first examples for each signature whose inputs are given and have a variable batch size."""
    found = {}
    for key, function in signatures.items():
        specs = tf.nest.flatten(function.input_signature)
        if specs and all(spec.name in given and _takes(spec, given[spec.name]) for spec in specs):
            found[key] = {spec.name: np.asarray(given[spec.name][:count]) for spec in specs}
    return found


def _takes(spec: Any, values: NDArray[Any]) -> bool:
    """Return whether an input takes any number of these values: a feature may have the name of another's input."""
    is_variable = spec.shape.as_list()[:1] == [None]
    is_same = spec.dtype == tf.as_dtype(values.dtype) and spec.shape.is_compatible_with(values.shape)
    return bool(is_variable and is_same)


def _litert(
    recipe: Recipe,
    signatures: Mapping[str, Any],
    precisions: Sequence[Precision],
    folder: Path,
    served: Columns,
    columns: Columns,
    predictions: Path,
) -> dict[str, Any]:
    """Write the LiteRT files that are asked for, and return their entry in `model.json`, if any.

    signatures: as the recipe has them; what they answer to empty batches matters only for serving.
    """
    if not precisions:
        return {}
    with scratch.folder("export") as made:
        _write_saved_model(recipe, signatures, made)
        models = {precision: litert.convert(made, precision) for precision in precisions}
    target = None if recipe.target is None else np.asarray(columns[recipe.target])
    described = {}
    for precision, model in models.items():
        files.write_bytes(folder / "litert" / f"{precision}.tflite", model)
        answers = litert.answers(model, served)
        figures = litert.measured(answers, arrays.unpacked(predictions), target, recipe.target)
        described[precision] = {"bytes": len(model), **figures}
    return {"litert": described}
