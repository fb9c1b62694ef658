"""Portable bits, end to end: the committed record, another number of cores, and native bits beside them."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
import yaml
from clones import BIN, ROOT, call, cloned, environment, sums

from tapeline.runtime.environment import has_portable_bits

pytestmark = pytest.mark.slow
portable = pytest.mark.skipif(not has_portable_bits(), reason="this CPU is not an x86-64 with AVX2 and FMA")
TRAIN = (sys.executable, "-m", "tapeline", "train", "digits")

DENSE = """
import keras
import tensorflow as tf

from tapeline.recipe import Supervised


class Dense(Supervised):
    inputs = ("image",)
    target = "label"

    def build(self):
        wide = [keras.layers.Dense(256, activation="gelu"), keras.layers.BatchNormalization()]
        self.model = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Flatten(), *wide, keras.layers.Dense(10)])
        self.optimizer = keras.optimizers.Adam(0.01)

    def loss(self, batch, *, training):
        logits = self.model(tf.cast(batch["image"], tf.float32) / 16.0, training=training)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(batch["label"], logits)
        return losses, {"accuracy": tf.equal(tf.argmax(logits, -1), batch["label"])}

    def predict(self, inputs):
        logits = self.model(tf.cast(inputs["image"], tf.float32) / 16.0)
        return {"class": tf.argmax(logits, -1), "probabilities": tf.nn.softmax(logits)}
"""


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """A clone with the digits ingested."""
    made = cloned(ROOT, tmp_path_factory.mktemp("clone") / "tapeline")
    call(made, sys.executable, "-m", "tapeline", "ingest", "digits")
    return made


def settings(folder, **changed):
    path = folder / "params.yaml"
    params = yaml.safe_load(path.read_text())
    params["pipelines"]["digits"].update(changed)
    path.write_text(yaml.safe_dump(params, sort_keys=False))


def on(cores, folder, *command):
    """Run a command on these cores; return the process."""
    return subprocess.Popen(
        ["taskset", "--cpu-list", ",".join(map(str, sorted(cores))), *map(str, command)],
        cwd=folder,
        env={**environment(), "PYTHONPATH": str(folder / "src")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finished(process):
    said, _ = process.communicate(timeout=600)
    assert process.returncode == 0, said
    return said


def weights(folder):
    return {name: value for name, value in sums(folder).items() if name.startswith("runs/digits/train/")}


@pytest.mark.long
@portable
def test_the_record_is_what_any_machine_computes(tmp_path):
    """README's SHA-256, and every output that `dvc.lock` has, on whatever CPU this runs."""
    said = call(cloned(ROOT, tmp_path / "tapeline"), BIN / "tapeline", "verify", "digits", timeout=800).stdout
    found = re.search(r"SHA-256 of all outputs: ([0-9a-f]{64})", said)
    assert found and found[1] in (ROOT / "README.md").read_text(), said


@pytest.mark.long
@portable
@pytest.mark.parametrize("mode", ["graph", "xla"])
def test_the_number_of_cores_changes_no_bit_not_even_in_the_middle(clone, mode):
    """One core, then all; and one core until SIGKILL, then all."""
    cnn = {"learning_rate": 0.002, "dropout": 0.4, "shift": 1, "decay_steps": 120}
    recipe, params = {"graph": ("src/tapeline/recipes/digits_cnn.py", cnn), "xla": ("dense.py", {})}[mode]
    (clone / "dense.py").write_text(DENSE)
    train = {
        "compile": mode,
        "epochs": {"graph": 12, "xla": 600}[mode],
        "batch_size": 64,
        "validate_every": 6,
        "checkpoint": {"every_steps": 20},
    }
    settings(clone, recipe=recipe, params=params, train=train)
    every = os.sched_getaffinity(0)
    one = {min(every)}
    finished(on(one, clone, *TRAIN, "--fresh"))
    expected = weights(clone)
    finished(on(every, clone, *TRAIN, "--fresh"))
    assert weights(clone) == expected
    process = on(one, clone, *TRAIN, "--fresh")
    kill_with_a_checkpoint(process, clone)
    assert "resuming from step" in finished(on(every, clone, *TRAIN))
    assert weights(clone) == expected


def kill_with_a_checkpoint(process, folder):
    """SIGKILL as soon as this run has written a checkpoint, of which `--fresh` has left none."""
    end = time.monotonic() + 300
    while not list((folder / ".tapeline" / "checkpoints" / "digits").glob("*/step-*")):
        assert process.poll() is None and time.monotonic() < end, process.stdout.read()
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate()


@pytest.mark.long
def test_native_bits_are_the_same_in_a_fork_and_in_a_process_of_their_own(tmp_path):
    made = []
    for fork in ("1", "0"):
        folder = cloned(ROOT, tmp_path / fork / "tapeline")
        text = (folder / "params.yaml").read_text()
        (folder / "params.yaml").write_text(
            text.replace("      epochs: 200\n", "      epochs: 200\n      bits: native\n")
        )
        call(folder, "env", f"TAPELINE_FORK={fork}", BIN / "tapeline", "run", "--pipeline", "linear-regression")
        machine = json.loads((folder / "runs/linear-regression/environment.json").read_text())["machine"]
        assert "bits" not in machine
        made.append(sums(folder))
    assert made[0] == made[1]
