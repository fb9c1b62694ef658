"""A program: load a SavedModel with TensorFlow only and compare its outputs with recorded ones.

Reads one JSON object from standard input: `model`, `inputs` (name → `.npy`), `predictions` (`.npz`) and
`tolerance`. Exits with status 1 and one line on standard error if an output differs.
"""

import gc
import json
import sys

import numpy as np

BATCH = 256


def main() -> str:
    """Return what differs, or an empty string."""
    gc.disable()  # imported objects stay alive; scanning them takes a quarter of the time
    import tensorflow as tf

    gc.freeze()
    gc.enable()
    asked = json.load(sys.stdin)
    signature = tf.saved_model.load(asked["model"]).signatures["serving_default"]
    columns = {name: np.load(path, mmap_mode="r", allow_pickle=False) for name, path in asked["inputs"].items()}
    recorded = np.load(asked["predictions"], allow_pickle=False)
    examples = len(next(iter(columns.values())))
    parts: dict[str, list[np.ndarray]] = {}
    for start in range(0, examples, BATCH):
        answers = signature(**{name: tf.constant(column[start : start + BATCH]) for name, column in columns.items()})
        for name, value in answers.items():
            parts.setdefault(name, []).append(storable(value.numpy()))
    if parts.keys() != set(recorded.files):
        return f"outputs are {sorted(parts)}, validate recorded {sorted(recorded.files)}"
    for name in sorted(parts):
        answer, expected = np.concatenate(parts[name]), recorded[name]
        answer = answer.astype("S") if answer.dtype == object else answer  # text as fixed-length bytes
        if answer.shape != expected.shape or answer.dtype != expected.dtype:
            return f"{name} is {answer.dtype}{answer.shape}, validate recorded {expected.dtype}{expected.shape}"
        if np.issubdtype(answer.dtype, np.floating):
            if not np.allclose(answer, expected, rtol=asked["tolerance"], atol=asked["tolerance"]):
                difference = float(np.max(np.abs(answer - expected), initial=0.0))
                return f"{name} differs by {difference:g} from what validate recorded, tolerance {asked['tolerance']:g}"
        elif not np.array_equal(answer, expected):
            wrong = int(np.sum(answer != expected))
            return f"{name} differs from what validate recorded in {wrong} of {answer.size} values"
    return ""


def storable(values: np.ndarray) -> np.ndarray:
    """Return text as validate records it: fixed-length bytes instead of objects."""
    return values.astype(np.bytes_) if values.dtype == object else values


if __name__ == "__main__":
    if difference := main():
        print(difference, file=sys.stderr)
        sys.exit(1)
