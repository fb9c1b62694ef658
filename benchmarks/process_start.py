"""From the start of a process to the end of its first step: Tapeline against TensorFlow's own import and trace.

    python -m benchmarks.process_start [--repeats 5]

Both train the perceptron of the workload `mlp` in its recipe's mode. TensorFlow alone: import, build the model, trace
and compile one step, run it. Tapeline: the whole program, with its checks of the data, loop and state.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from benchmarks import machine, program
from benchmarks.measure import write_inputs
from benchmarks.process import Process
from benchmarks.workload import ROOT
from benchmarks.workloads.mlp import WORKLOAD

TENSORFLOW = """
import sys, numpy as np
import keras, tensorflow as tf
from benchmarks.workloads.mlp import RATE, WEIGHTS
folder = sys.argv[1]
weights = np.load(folder + "/weights.npz")
w1, b1, w2, b2 = variables = [tf.Variable(weights[name]) for name in WEIGHTS]
optimizer = keras.optimizers.Adam(RATE)
optimizer.build(variables)
index = np.load(folder + "/indices.npy")[0]
image, label = (np.load(f"{folder}/data/train/{name}.npy", mmap_mode="r")[index] for name in ("image", "label"))

@tf.function(jit_compile=True)
def step(image, label):
    with tf.GradientTape() as tape:
        x = tf.reshape(tf.cast(image, tf.float32) / 255.0, [-1, 784])
        logits = tf.nn.relu(x @ w1 + b1) @ w2 + b2
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(label, logits))
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
    return loss

print(float(step(tf.constant(image), tf.constant(label))), flush=True)
"""


def first_step(command: list[str]) -> float:
    """Return the seconds until the program's first line of output."""
    began = time.perf_counter()
    child = subprocess.Popen(
        command,
        cwd=ROOT,
        env=Process.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert child.stdout is not None
    line = child.stdout.readline()
    seconds = time.perf_counter() - began
    child.kill()
    child.communicate()  # closes the pipes, too
    assert line, f"{command[:3]} ended before its first step"
    return seconds


def main() -> None:
    """Start both in turn; print and write the medians and their ratio."""
    options = program.parser(__doc__, repeats=5).parse_args()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        write_inputs(WORKLOAD, folder)
        commands = {
            "tapeline": [sys.executable, "-m", "benchmarks.first_step_program", WORKLOAD.name, str(folder)],
            "tensorflow": [sys.executable, "-c", TENSORFLOW, str(folder)],
        }
        seconds: dict[str, list[float]] = {name: [] for name in commands}
        calm = machine.Calm()
        for _ in range(options.repeats):
            for name, command in commands.items():
                seconds[name].append(calm(partial(first_step, command)))
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    ratio = medians["tapeline"] / medians["tensorflow"]
    print(
        f"first step after {medians['tapeline']:.2f} s, TensorFlow's own {medians['tensorflow']:.2f} s: {ratio:.2f} ×"
    )
    record = {"workload": "process_start", "seconds": seconds, "medians": medians, "ratio": ratio}
    program.write(options.out, {**record, "stolen": calm.stolen})


if __name__ == "__main__":
    main()
