"""The infra check on real SavedModels: what each of them does wrong is said in one sentence."""

import re
import subprocess
import sys

import numpy as np
import pytest

from tapeline.config.registry import CheckSettings
from tapeline.export import empty_batches, warm_up
from tapeline.registry.gate import probing

pytestmark = pytest.mark.slow  # each starts TensorFlow in a process of its own

X = np.linspace(-1, 1, 60, dtype=np.float32).reshape(20, 3)
SPEC = {"dtype": "float32", "shape": [None, 3]}
SIGNATURES = {"serving_default": {"inputs": {"x": SPEC}, "outputs": {"y": {"dtype": "float32", "shape": [None]}}}}


@pytest.fixture
def model(tf, tmp_path):
    """Return a maker of SavedModels from a function of a batch x of shape (n, 3); ten rows of X warm it up."""

    def make(function, *, examples=10):
        def serve(x):
            return function(x)

        spec = tf.TensorSpec((None, 3), tf.float32, name="x")
        serve = empty_batches.answering(tf.function(serve, input_signature=[spec]))
        module = tf.Module()
        tf.saved_model.save(module, str(tmp_path / "saved_model"), signatures=serve.get_concrete_function())
        if examples:
            warm_up.write(tmp_path / "saved_model", "m", {"serving_default": {"x": X[:examples]}})
        return tmp_path / "saved_model"

    return make


def run(model, folder, *, recorded=None, inputs=True, signatures=SIGNATURES, **settings):
    np.save(folder / "x.npy", X)
    file = None
    if recorded is not None:
        file = folder / "predictions.npz"
        np.savez(file, y=recorded)
    given = {"x": folder / "x.npy"} if inputs else {}
    return probing.run(model, signatures, given, recorded=file, tolerance=1e-5, settings=CheckSettings(**settings))


def test_a_good_model_answers_everything_and_is_measured(tf, model, tmp_path):
    answer = run(model(lambda x: {"y": tf.reduce_sum(x, 1)}), tmp_path, recorded=X.sum(1))
    assert answer.failures == ()
    np.testing.assert_allclose(answer.predictions["y"], X.sum(1), atol=1e-6)
    assert answer.figures["batch_sizes"] == [0, 1, 2, 3, 17, 32, 64, 127, 256, 1000]
    assert answer.figures["examples"] == {"serving_default": 10}
    assert 0 < answer.figures["latency_ms"]["p50"] <= answer.figures["latency_ms"]["p99"]
    assert 100 < answer.figures["memory_mb"] < 4096
    assert answer.figures["sandbox"]


def test_without_features_the_warm_up_requests_are_answered(tf, model, tmp_path):
    answer = run(model(lambda x: {"y": tf.reduce_sum(x, 1)}), tmp_path, recorded=X.sum(1), inputs=False)
    assert answer.failures == () and len(answer.predictions["y"]) == 10


@pytest.mark.in_ci(3)
@pytest.mark.parametrize(
    ("function", "said"),
    [
        (
            lambda tf: lambda x: {"y": tf.reduce_sum(x, 1) + 1e-3},
            "y differs by 0.001",
        ),
        (
            lambda tf: lambda x: {"y": tf.reduce_sum(x - tf.reduce_mean(x, 0), 1)},
            "differs between a batch of 1 and one of 1000",
        ),
        (
            lambda tf: lambda x: {"y": tf.cast(tf.reduce_sum(x, 1), tf.float64)},
            "y is float64, and model.json says float32",
        ),
        (lambda tf: lambda x: {"z": tf.reduce_sum(x, 1)}, "answers z, and model.json names y"),
        (lambda tf: lambda x: {"y": tf.reduce_sum(x, 1)[:2]}, "y has shape [2], not [3]"),
        (lambda tf: lambda x: {"y": tf.reduce_sum(tf.reshape(x, [-1, 6]), 1)}, "fails for a batch of 0: "),
    ],
    ids=["other answers", "batch in training mode", "dtype", "names", "shape", "odd batches"],
)
def test_what_a_model_does_wrong(tf, model, tmp_path, function, said):
    answer = run(model(function(tf)), tmp_path, recorded=X.sum(1))
    assert len(answer.failures) == 1 and said in answer.failures[0] and "\n" not in answer.failures[0]


def test_limits_of_memory_and_time_and_a_model_that_is_none(tf, model, tmp_path):
    good = model(lambda x: {"y": tf.reduce_sum(x, 1)})
    assert "MB of memory, more than 50" in run(good, tmp_path, memory_mb=50).failures[0]
    assert run(good, tmp_path, seconds=0.2).failures == ("did not finish within 0.2 s",)
    signatures = {**SIGNATURES, "other": SIGNATURES["serving_default"]}
    assert run(good, tmp_path, signatures=signatures).failures == ("has no signature other",)
    (good / "saved_model.pb").write_bytes(b"no graph")
    (failure,) = run(good, tmp_path).failures
    assert failure.startswith("does not load or answer: ") and "\n" not in failure


FULL = """
import sys
from pathlib import Path
from tapeline.config.registry import CheckSettings
from tapeline.registry.gate import probing

folder = Path(sys.argv[1])
try:
    inputs = {"x": folder / "x.npy"}
    print(probing.run(folder / "saved_model", {}, inputs, recorded=None, tolerance=0, settings=CheckSettings()))
except OSError as error:
    print(error.strerror, error.filename)
"""


def test_a_full_disk_is_not_the_model_s_fault(tf, model, tmp_path):
    """Its answers find no room."""
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode:
        pytest.skip("this system lets nobody make a mount namespace")
    model(lambda x: {"y": tf.reduce_sum(x, 1)})
    np.save(tmp_path / "x.npy", np.repeat(X, 1000, axis=0))
    (disk := tmp_path / "disk").mkdir()
    mount = 'mount -t tmpfs -o size=64k none "$1/disk" && TMPDIR="$1/disk" exec "$2" -c "$3" "$1"'
    command = ["unshare", "-rm", "sh", "-c", mount, "sh", str(tmp_path), sys.executable, FULL]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    assert said.startswith(f"No space left on device {disk}/")


def test_text_is_answered_and_compared(tf, model, tmp_path):
    """NumPy's archives have no Python objects without pickles."""
    signatures = {"serving_default": {"inputs": {"x": SPEC}, "outputs": {"y": {"dtype": "string", "shape": [None]}}}}
    serve = model(lambda x: {"y": tf.where(x[:, 0] > 0, tf.constant("größer"), tf.constant("less"))})
    expected = np.array(["größer".encode() if row[0] > 0 else b"less" for row in X])
    answer = run(serve, tmp_path, recorded=expected, signatures=signatures)
    assert answer.failures == () and answer.predictions["y"].tolist() == expected.tolist()
    answer = run(serve, tmp_path, recorded=np.roll(expected, 3), signatures=signatures)
    assert len(answer.failures) == 1
    assert re.fullmatch(r"y differs from what validate recorded in \d+ of 20 values", answer.failures[0])


def test_a_model_that_writes_a_file_is_refused_before_it_does(tf, model, tmp_path):
    """Also when it would do so while it loads."""
    victim = tmp_path / "victim"
    victim.write_text("as it was")

    def hostile(x):
        tf.io.write_file(str(victim), "mine")
        return {"y": tf.reduce_sum(x, 1)}

    answer = run(model(hostile), tmp_path)
    (failure,) = answer.failures
    assert failure.startswith("has the operation 'WriteFile' in the function ") and answer.predictions == {}
    assert victim.read_text() == "as it was" and answer.figures["sandbox"]
