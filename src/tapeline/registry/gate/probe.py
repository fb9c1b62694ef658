"""A standalone program: load a SavedModel with TensorFlow alone, exercise it as production might, write its answers.

Reads one JSON object from stdin: `model` (the SavedModel's folder), `signatures` (those to try, as in `model.json`),
`inputs` (name → `.npy` of the inputs; empty for the warm-up requests), `predictions` (the `.npz` to expect, or null),
`tolerance`, `answers` (the `.npz` to write), `log` (base64 of the Protobuf definition of the warm-up messages) and
`log_name` (the name of the outermost one). The last line of stdout is a JSON object: `failures` (sentences) and
figures. No Tapeline code runs in here but `export/check.py` and `runtime/saved_models/standalone.py`, with what that
loads; `runtime/sandbox.py` holds the process.
"""

import base64
import json
import os
import resource
import runpy
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

Arrays = dict[str, "np.ndarray[Any, Any]"]

DEFAULT = "serving_default"
WARM_UP = "assets.extra/tf_serving_warmup_requests"
SIZES = (0, 1, 2, 3, 17, 32, 64, 127, 256, 1000)
CALLS = 200
UNTIMED = 20
"""Warm-up calls before the timed ones."""
APART = 100
"""Tolerances by which the batch size may change an answer: kernels round differently; training mode differs more."""


def main() -> dict[str, Any]:
    """Return the failures and the figures."""
    package = Path(__file__).parents[2]
    standalone = SimpleNamespace(**runpy.run_path(str(package / "runtime" / "saved_models" / "standalone.py")))
    check = standalone.loaded(package / "export" / "check.py")
    tf = standalone.tensorflow()
    asked = json.load(sys.stdin)
    started = time.perf_counter()
    try:
        model = standalone.opened(tf, asked["model"])
    except standalone.Refused as refused:
        return {"failures": [str(refused)], "sandbox": os.environ["TAPELINE_SANDBOX"]}
    figures: dict[str, Any] = {"load_seconds": time.perf_counter() - started}
    figures["sandbox"] = os.environ["TAPELINE_SANDBOX"]
    examples = warm_up_requests(tf, Path(asked["model"]) / WARM_UP, base64.b64decode(asked["log"]), asked["log_name"])
    failures: list[str] = []
    for key, described in sorted(asked["signatures"].items()):
        if key not in model.signatures:
            failures.append(f"has no signature {key}")
            continue
        given = examples.get(key) or zeros(described["inputs"])
        failures += tried(tf, check, model.signatures[key], described, given, asked["tolerance"], key)
    columns = check.mapped(asked["inputs"])
    given = columns or examples.get(DEFAULT, {})
    if not failures and given:
        answers = check.answered(tf, model.signatures[DEFAULT], given)
        if asked["predictions"]:
            count = min(map(len, given.values()))  # the warm-up requests are the first examples alone
            with np.load(asked["predictions"], allow_pickle=False) as recorded:
                expected = {name: recorded[name][:count] for name in recorded.files}
            failures += filter(None, [check.difference(answers, expected, asked["tolerance"])])
        np.savez(asked["answers"], allow_pickle=False, **answers)
        figures["latency_ms"] = latency(tf, model.signatures[DEFAULT], given)
    figures["examples"] = {key: len(next(iter(values.values()))) for key, values in sorted(examples.items())}
    figures["batch_sizes"] = list(SIZES) if asked["signatures"] else []
    figures["memory_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"failures": failures, **figures}


def warm_up_requests(tf: Any, path: Path, definition: bytes, name: str) -> dict[str, Arrays]:
    """Return signature → input → values of shape (examples, ...), from the warm-up requests for serving.

    definition: of the requests' messages, as Protobuf's serialized `FileDescriptorProto`; name: of the outermost one.
    """
    if not path.is_file():
        return {}
    from google.protobuf import descriptor_pool, message_factory
    from tensorflow.core.framework import tensor_pb2  # noqa: F401  # the definition depends on it

    pool = descriptor_pool.Default()
    pool.AddSerializedFile(definition)
    log = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
    parts: dict[str, dict[str, list[Any]]] = {}
    for record in untuned(tf, tf.data.TFRecordDataset(str(path))):
        request = log.FromString(record.numpy()).predict_log.request
        inputs = parts.setdefault(request.model_spec.signature_name, {})
        for entry in request.inputs:
            inputs.setdefault(entry.key, []).append(tf.make_ndarray(entry.value))
    return {key: {n: np.concatenate(v) for n, v in inputs.items()} for key, inputs in parts.items()}


def untuned(tf: Any, dataset: Any) -> Any:
    """Return a dataset whose iterators are freed at once: the autotuning thread would hold them (`runtime.untuned`)."""
    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)


def zeros(inputs: Mapping[str, Any]) -> Arrays:
    """Return one example of zeros for a signature that has no warm-up requests."""
    shapes = {name: [1 if size is None else size for size in spec["shape"]] for name, spec in inputs.items()}
    return {name: np.zeros(shape, inputs[name]["dtype"].replace("string", "S1")) for name, shape in shapes.items()}


def tried(
    tf: Any, check: Any, signature: Any, described: Mapping[str, Any], given: Arrays, tolerance: float, key: str
) -> list[str]:
    """Return what is wrong with a signature's answers for batches of all sizes."""
    batched = all(spec["shape"][:1] == [None] for spec in described["inputs"].values())
    answers: Arrays = {}
    for size in SIZES if batched else (None,):
        of = "one fixed shape" if size is None else f"a batch of {size}"
        try:
            answers = {name: value.numpy() for name, value in signature(**tensors(tf, given, size)).items()}
        except Exception as error:
            return [f"{key} fails for {of}: {told(error)}"]
        if wrong := unlike(answers, described["outputs"], size):
            return [f"{key}: {wrong} for {of}"]
    if batched and all(spec["shape"][:1] == [None] for spec in described["outputs"].values()):
        for name, value in signature(**tensors(tf, given, 1)).items():
            if not check.close(value.numpy()[:1], answers[name][:1], APART * tolerance):
                return [f"{key}: {name} of an example differs between a batch of 1 and one of {SIZES[-1]}"]
    return []


def told(error: Exception) -> str:
    """Return the line of an error that says what happened; TensorFlow prints where it happened first."""
    where = ("Graph execution error", "Detected at", "<stack traces", "[[{{", "\t [[{{")
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return next((line for line in lines if not line.startswith(where)), type(error).__name__)


def tensors(tf: Any, given: Arrays, size: int | None) -> dict[str, Any]:
    """Return a batch of `size`, repeating the examples; with None, the examples as they are."""
    if size is None:
        return {name: tf.constant(values) for name, values in given.items()}
    return {name: tf.constant(values[np.arange(size) % len(values)]) for name, values in given.items()}


def unlike(answers: Arrays, described: Mapping[str, Any], size: int | None) -> str:
    """Return how the answers differ from `model.json`; empty if they do not."""
    if set(answers) != set(described):
        return f"answers {', '.join(sorted(answers))}, and model.json names {', '.join(sorted(described))}"
    for name, spec in described.items():
        dtype, shape = answers[name].dtype.name.replace("object", "string"), list(answers[name].shape)
        if dtype != spec["dtype"]:
            return f"{name} is {dtype}, and model.json says {spec['dtype']}"
        wanted = [size, *spec["shape"][1:]] if size is not None and spec["shape"][:1] == [None] else spec["shape"]
        if len(shape) != len(wanted) or any(w is not None and w != s for s, w in zip(shape, wanted, strict=True)):
            return f"{name} has shape {shape}, not {wanted}"
    return ""


def latency(tf: Any, signature: Any, given: Arrays) -> dict[str, float]:
    """Return the time of a call with one example, in milliseconds."""
    names = signature.structured_input_signature[1]
    one = {name: tf.constant(given[name][:1]) for name in names}
    took = []
    for _ in range(UNTIMED + CALLS):
        started = time.perf_counter()
        for value in signature(**one).values():
            value.numpy()
        took.append(1000 * (time.perf_counter() - started))
    p50, p99 = np.percentile(took[UNTIMED:], [50, 99])
    return {"p50": float(p50), "p99": float(p99)}


if __name__ == "__main__":
    print(json.dumps(main()))
