"""LiteRT files alongside the SavedModel, with measurements of each on the tested split."""

import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tapeline.config.export import Precision
from tapeline.export import check
from tapeline.runtime import startup
from tapeline.runtime.errors import InputError, RunError
from tapeline.runtime.saved_models import DEFAULT

_LACKING = re.compile(r"^(?:TF Select|Custom) ops: (.+)$", re.MULTILINE)
"""How the converter lists the operations that LiteRT alone does not have."""


def convert(saved_model: Path, precision: Precision) -> bytes:
    """Return a LiteRT model of the SavedModel's `serving_default`. Raises `RunError` if it does not convert."""
    converter = tf.lite.TFLiteConverter.from_saved_model(str(saved_model), signature_keys=[DEFAULT])
    if precision == "int8":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    try:
        with startup.quietly():
            return bytes(converter.convert())
    except Exception as error:  # each part of the converter raises its own class
        lines = str(error).strip().splitlines() or [type(error).__name__]
        lacking = ", ".join(_LACKING.findall(str(error)))
        why = f"operations that it lacks for such tensors: {lacking}" if lacking else lines[0]
        raise RunError(f"the model does not convert to LiteRT: {why}; leave out export.litert") from None


def answers(model: bytes, inputs: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return a LiteRT model's outputs for all inputs, in order. Shapes (examples, ...).

    inputs: at least those of its signature; others are left out.
    Raises `RunError` if it does not run: what converts need not.
    """
    with warnings.catch_warnings(), startup.quietly():
        # Deprecated; the package that replaces it has no release for every Python version that Tapeline supports.
        warnings.filterwarnings("ignore", message=r"(?s).*tf\.lite\.Interpreter is deprecated", category=UserWarning)
        try:
            runner = tf.lite.Interpreter(model_content=model).get_signature_runner(DEFAULT)
            needed = {name: inputs[name] for name in runner.get_input_details()}
            return check.batched(lambda batch: runner(**batch), needed)
        except (RuntimeError, ValueError) as error:  # the interpreter's, of an operation or of its arguments
            said = " ".join(str(error).split())
            raise RunError(f"the model converts to LiteRT and does not run: {said}; leave out export.litert") from None


def measured(
    found: Mapping[str, NDArray[Any]],
    recorded: Mapping[str, NDArray[Any]],
    target: NDArray[Any] | None,
    name: str | None,
) -> dict[str, float]:
    """Return how good the outputs are, and how far they are from the SavedModel's.

    target: the actual values of what the output `name` predicts, or of the class index; None for a model that predicts
    no feature. Raises `InputError` for answers of another shape than the target.
    """
    figures = {
        f"largest_difference.{output}": float(np.max(np.abs(found[output] - recorded[output]), initial=0.0))
        for output in sorted(found)
        if np.issubdtype(found[output].dtype, np.inexact)
    }
    if "class" in found:
        figures["agreement"] = float(np.mean(found["class"] == recorded["class"]))
    if target is not None and "class" in found:
        figures["accuracy"] = float(np.mean(_shaped(found["class"], target, "class") == target))
    elif target is not None and name is not None and name in found:
        figures["mean_absolute_error"] = float(
            np.mean(np.abs(_shaped(found[name], target, name).astype(np.float64) - target))
        )
    return figures


def _shaped(answers: NDArray[Any], target: NDArray[Any], name: str) -> NDArray[Any]:
    """Return answers in the target's shape: a column of one number is that number.

    Raises `InputError` for other shapes: NumPy would compare each answer with every example.
    """
    if answers.shape[:1] == target.shape[:1] and answers.size == target.size:
        return answers.reshape(target.shape)
    raise InputError(f"its LiteRT file's {name} has the shape {answers.shape[1:]}, the target {target.shape[1:]}")
