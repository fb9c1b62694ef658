"""The export check compares: each difference between a model's answers and the recorded ones is told."""

import gc
import io
import json

import numpy as np
import pytest

from tapeline.export import check, checking
from tapeline.runtime.errors import RunError

INPUT = np.arange(600, dtype=np.float32).reshape(300, 2)  # more than one batch
CLASSES, SUMS = np.arange(300) % 3, INPUT.sum(1)


@pytest.fixture(scope="module")
def asked(tf, tmp_path_factory):
    """Return what the program is asked: a model of a sum and a class, and the answers as they should be."""
    folder = tmp_path_factory.mktemp("check")
    module = tf.Module()

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, name="x")])
    def serve(x):
        return {"sum": tf.reduce_sum(x, 1), "class": tf.cast(x[:, 0] / 2, tf.int64) % 3}

    tf.saved_model.save(module, str(folder / "model"), signatures=serve)
    np.save(folder / "x.npy", INPUT)

    def write(tolerance=1e-5, **recorded):
        np.savez(folder / "predictions.npz", **recorded)
        return {
            "model": str(folder / "model"),
            "inputs": {"x": str(folder / "x.npy")},
            "predictions": str(folder / "predictions.npz"),
            "tolerance": tolerance,
            "batch_size": 256,
        }

    return write


def at(values, place, value):
    changed = values.copy()
    changed[place] = value
    return changed


CASES = {
    "the same": ({"sum": SUMS, "class": CLASSES}, ""),
    "within the tolerance": ({"sum": at(SUMS, 0, SUMS[0] + 9e-6), "class": CLASSES}, ""),
    "beyond it": ({"sum": at(SUMS, 0, SUMS[0] + 2e-5), "class": CLASSES}, "sum differs by 2.0"),
    "below it": ({"sum": at(SUMS, 0, SUMS[0] - 2e-5), "class": CLASSES}, "sum differs by 2.0"),
    "the last example": (
        {"sum": at(SUMS, -1, 0), "class": CLASSES},
        "sum differs by 1197 where validate recorded 0, but `tolerance: 1e-05` under `export` in params.yaml allows",
    ),
    "not a number": ({"sum": at(SUMS, 5, np.nan), "class": CLASSES}, "sum differs by nan where validate recorded"),
    "one class": ({"sum": SUMS, "class": at(CLASSES, 299, 0)}, "class differs from what validate recorded in 1 of 300"),
    "fewer examples": (
        {"sum": SUMS[:-1], "class": CLASSES},
        "sum is float32(300,), but validate recorded float32(299,)",
    ),
    "another type": (
        {"sum": SUMS, "class": CLASSES.astype(np.int32)},
        "class is int64(300,), but validate recorded int32",
    ),
    "an output less": ({"sum": SUMS}, "outputs are ['class', 'sum'], but validate recorded ['sum']"),
    "an output more": ({"sum": SUMS, "class": CLASSES, "y": SUMS}, "validate recorded ['class', 'sum', 'y']"),
}


@pytest.mark.parametrize("case", list(CASES))
def test_what_differs_is_said(asked, monkeypatch, case):
    recorded, said = CASES[case]
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(asked(**recorded))))
    try:
        found = check.main()
    finally:
        gc.unfreeze()  # the program's own process ends instead
    assert said in found
    assert bool(found) == bool(said)


def test_the_process_refuses_what_differs_and_passes_what_does_not(asked):
    def compared(**recorded):
        request = asked(**recorded)
        with checking.checker() as started:
            started.compare(request["model"], request["inputs"], request["predictions"], request["tolerance"])

    compared(sum=SUMS, **{"class": CLASSES})
    with pytest.raises(RunError, match="^the exported model failed its check: class differs .* in 1 of 300 values$"):
        compared(sum=SUMS, **{"class": at(CLASSES, 7, 0)})


@pytest.mark.slow
def test_the_batches_are_those_of_the_recorded_answers(tf, tmp_path):
    spec = tf.TensorSpec([None, 2], tf.float32, name="x")
    serve = tf.function(lambda x: {"rows": tf.fill(tf.shape(x)[:1], tf.shape(x)[0])}, input_signature=[spec])
    tf.saved_model.save(tf.Module(), str(tmp_path / "model"), signatures=serve.get_concrete_function())
    np.save(tmp_path / "x.npy", INPUT)
    np.savez(tmp_path / "predictions.npz", rows=np.full(300, 100, np.int32))
    asked = (tmp_path / "model", {"x": tmp_path / "x.npy"}, tmp_path / "predictions.npz", 1e-5)
    with checking.checker() as started:
        started.compare(*asked, 100)
    with checking.checker() as started, pytest.raises(RunError, match="rows differs from what validate recorded"):
        started.compare(*asked, 150)


def test_the_process_has_one_hash_seed_and_nothing_of_the_project_s(tmp_path, monkeypatch):
    program = tmp_path / "told.py"
    program.write_text(
        "import os, sys\nsys.exit(f'{sys.flags.hash_randomization} {sys.path[:1]} {sys.flags.safe_path}')"
    )
    monkeypatch.setattr(check, "__file__", str(program))
    monkeypatch.setenv("PYTHONHASHSEED", "5")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with checking.checker() as started, pytest.raises(RunError) as said:
        started.compare(tmp_path, {}, tmp_path, 0.0)
    assert "check: 0 [" in str(said.value) and str(tmp_path) not in str(said.value)


def test_complex_answers_are_close_up_to_the_tolerance():
    """They were compared to the bit."""
    recorded = np.array([1 + 1j, 2], np.complex64)
    assert check.difference({"y": recorded + np.complex64(5e-6j)}, {"y": recorded}, 1e-5) == ""
    assert check.difference({"y": recorded + np.complex64(0.5j)}, {"y": recorded}, 1e-5).startswith("y differs by 0.5")
