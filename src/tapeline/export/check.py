"""A program: load a SavedModel with TensorFlow only and compare its outputs with recorded ones.

Reads one JSON object from standard input: `model`, `inputs` (name → `.npy`), `predictions` (`.npz`), `tolerance` and
`batch_size`. Exits with status 1 and one line on standard error if an output differs.

No Tapeline code runs in here, so that the model is shown to need none: that is why this predicts in batches by itself,
where the stages use `recipe/predicting.py`. The registry's `gate/probe.py` loads this file for the same.
"""

import gc
import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Arrays = dict[str, "np.ndarray[Any, Any]"]

BATCH = 256
"""Default of `validate.batch_size`. In another batch a kernel may round otherwise, and an integer then differs."""


def main() -> str:
    """Return what differs, or an empty string."""
    tf = tensorflow()
    asked = json.load(sys.stdin)
    signature = tf.saved_model.load(asked["model"]).signatures["serving_default"]
    with np.load(asked["predictions"], allow_pickle=False) as recorded:
        answers = answered(tf, signature, mapped(asked["inputs"]), asked["batch_size"])
        return difference(answers, dict(recorded), asked["tolerance"])


def tensorflow() -> Any:
    """Import TensorFlow with GC disabled: the objects stay alive, and scanning them takes a quarter of the time."""
    gc.disable()
    import tensorflow as tf

    gc.freeze()
    gc.enable()
    return tf


def mapped(inputs: Mapping[str, str]) -> Arrays:
    """Return the arrays of `.npy` files, memory-mapped, by input name."""
    return {name: np.load(path, mmap_mode="r", allow_pickle=False) for name, path in inputs.items()}


def answered(tf: Any, signature: Any, given: Mapping[str, Any], batch_size: int = BATCH) -> Arrays:
    """Return a signature's outputs as `batched` does, of types that `.npz` stores without pickle."""

    def answer(batch: Arrays) -> Arrays:
        answers = signature(**{name: tf.constant(values) for name, values in batch.items()})
        return {name: value.numpy() for name, value in answers.items()}

    needed = {name: given[name] for name in signature.structured_input_signature[1]}
    return {name: storable(values) for name, values in batched(answer, needed, batch_size).items()}


def batched(answer: Callable[[Arrays], Mapping[str, Any]], given: Mapping[str, Any], batch_size: int = BATCH) -> Arrays:
    """Return the outputs for all inputs, in order. Shapes (examples, ...); the shortest input determines the count."""
    parts: dict[str, list[Any]] = {}
    for start in range(0, min(len(values) for values in given.values()), batch_size):
        batch = {name: np.asarray(values[start : start + batch_size]) for name, values in given.items()}
        for name, value in answer(batch).items():
            parts.setdefault(name, []).append(np.array(value))
    return {name: np.concatenate(values) for name, values in sorted(parts.items())}


def difference(answers: Arrays, recorded: Mapping[str, Any], tolerance: float) -> str:
    """Return how the first output that differs from the recorded one does; empty if none does."""
    if answers.keys() != recorded.keys():
        return f"outputs are {sorted(answers)}, but validate recorded {sorted(recorded)}"
    for name, answer in answers.items():
        expected = recorded[name]
        same_type = answer.dtype == expected.dtype or answer.dtype.kind == expected.dtype.kind == "S"
        if answer.shape != expected.shape or not same_type:
            return f"{name} is {answer.dtype}{answer.shape}, but validate recorded {expected.dtype}{expected.shape}"
        if close(answer, expected, tolerance):
            continue
        if np.issubdtype(answer.dtype, np.inexact):
            apart = np.abs(answer - expected)
            worst = np.unravel_index(np.argmax(apart - tolerance * (1 + np.abs(expected))), apart.shape)
            allowed = tolerance * (1 + abs(expected[worst]))
            return (
                f"{name} differs by {apart[worst]:g} where validate recorded {expected[worst]:g}, but `tolerance: "
                f"{tolerance:g}` under `export` in params.yaml allows {allowed:g}"
            )
        wrong = int(np.sum(answer != expected))
        return f"{name} differs from what validate recorded in {wrong} of {answer.size} values"
    return ""


def close(one: Any, other: Any, tolerance: float) -> bool:
    """Return whether two answers are equal; floating-point and complex ones up to tolerance * (1 + |other|)."""
    if np.issubdtype(one.dtype, np.inexact):
        return bool(np.allclose(one, other, rtol=tolerance, atol=tolerance))
    return bool(np.array_equal(one, other))


def storable(values: Any) -> Any:
    """Return answers as validate records them: text as fixed-length bytes, bfloat16 and its like as float32."""
    if values.dtype == object:
        return values.astype(np.bytes_)
    return values if values.dtype.kind in "biufcSU" else values.astype(np.float32)


if __name__ == "__main__":
    if differs := main():
        print(differs, file=sys.stderr)
        sys.exit(1)
