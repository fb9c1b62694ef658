"""Examples answered per second: `tapeline predict` of files against Keras' `model.predict` of arrays in memory.

    python -m benchmarks.predicting [--rows 1000000] [--repeats 5] [--network perceptron|convolutions] [--caps avx2]

All have the same network with the same weights, and images of 8×8 pixels. Each turn is a process of its own: `whole` is
its time from start to end, `alone` that without its start. For `tapeline predict`, the start is what one example takes,
measured in the same round; Keras and the bare signature time themselves, after a batch that does not count. `tapeline
predict` answers with portable bits, so on a CPU with AVX-512 the others are its equals with `--caps avx2` alone.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from benchmarks import machine, program, rounds
from benchmarks.process import Process

EXPORT = """
import json, sys
from pathlib import Path
import keras, numpy as np, tensorflow as tf
folder, network, rows = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
keras.utils.set_random_seed(0)
layers = [keras.Input((8, 8, 1), dtype="uint8"), keras.layers.Rescaling(1 / 16)]
if network == "convolutions":
    for filters in (32, 64, 64):
        layers += [keras.layers.Conv2D(filters, 3, padding="same", use_bias=False)]
        layers += [keras.layers.BatchNormalization(), keras.layers.ReLU()]
    layers += [keras.layers.MaxPooling2D(), keras.layers.Flatten()]
else:
    layers += [keras.layers.Flatten(), keras.layers.Dense(128, activation="relu")]
model = keras.Sequential([*layers, keras.layers.Dense(10, activation="softmax")])
model.save(folder / "model.keras")
spec = tf.TensorSpec((None, 8, 8, 1), tf.uint8, name="image")
serve = tf.function(lambda image: {"probabilities": model(image, training=False)}, input_signature=[spec])
module = tf.Module()
module.held = model.variables
tf.saved_model.save(module, str(folder / "model" / "saved_model"), signatures=serve.get_concrete_function())
signature = {
    "inputs": {"image": {"dtype": "uint8", "shape": [None, 8, 8, 1]}},
    "outputs": {"probabilities": {"dtype": "float32", "shape": [None, 10]}},
}
described = {"dataset": {"name": "digits"}, "metrics": {}, "files": {}, "signatures": {"serving_default": signature}}
(folder / "model" / "model.json").write_text(json.dumps(described))
images = np.random.default_rng(0).integers(0, 17, (rows, 8, 8, 1), np.uint8)
np.save(folder / "images.npy", images)
np.save(folder / "one.npy", images[:1])
names = ",".join(f"image.{number}" for number in range(64))
np.savetxt(folder / "images.csv", images.reshape(rows, 64), "%d", ",", header=names, comments="")
"""
PEER = """
import sys, time
from pathlib import Path
import numpy as np, tensorflow as tf
folder, peer, batch = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
images = np.load(folder / "images.npy")
if peer == "keras":
    import keras
    model = keras.models.load_model(folder / "model.keras")
    answer = lambda some: model.predict(some, batch_size=batch, verbose=0)
else:
    model = tf.saved_model.load(str(folder / "model" / "saved_model"))
    serve = model.signatures["serving_default"]
    def answer(some):
        parts = [serve(image=tf.constant(some[at : at + batch])) for at in range(0, len(some), batch)]
        return np.concatenate([part["probabilities"].numpy() for part in parts])
answer(images[:batch])
began = time.perf_counter()
found = answer(images)
print(time.perf_counter() - began)
np.save(folder / f"{peer}.npy", found)
"""
KERAS, LARGE, DEFAULT = "keras", 4096, 32
WAYS = {"npy to npy": ("images.npy", "npy"), "npy to parquet": ("images.npy", "parquet"), "csv": ("images.csv", "csv")}
PEERS = {"keras, 4096": (KERAS, LARGE), "keras, 32": (KERAS, DEFAULT), "signature, 4096": ("signature", LARGE)}


def timed(folder: Path, *command: str) -> tuple[float, str]:
    """Return the seconds of a process and what it printed. Raises `SystemExit` if it fails."""
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env=Process.environment(), capture_output=True, text=True, check=False
    )
    seconds = time.perf_counter() - began
    if done.returncode:
        raise SystemExit(done.stderr)
    return seconds, done.stdout


def predicted(folder: Path, name: str, form: str) -> float:
    """Return the seconds of `tapeline predict` for a file."""
    return timed(folder, "-m", "tapeline", "predict", "./model", name, "--out", f"answers.{form}")[0]


def turn(folder: Path, name: str) -> dict[str, float]:
    """Return the seconds of one turn: the whole process, and without its start."""
    if name in WAYS:
        start = predicted(folder, "one.npy", WAYS[name][1])
        whole = predicted(folder, *WAYS[name])
        return {"whole": whole, "alone": whole - start}
    peer, batch = PEERS[name]
    whole, said = timed(folder, "-c", PEER, str(folder), peer, str(batch))
    return {"whole": whole, "alone": float(said)}


def check(folder: Path) -> None:
    """Fail unless all answered the same."""
    program = (
        "import sys, numpy as np\n"
        "one, *others = (np.load(name) for name in ('answers.npy', 'keras.npy', 'signature.npy'))\n"
        "sys.exit(0 if all(np.allclose(one, other, atol=1e-5) for other in others) else 'other answers')"
    )
    timed(folder, "-c", program)


def main() -> None:
    """Run all in turn; print and write medians, their spread and the ratios to the fastest `model.predict`."""
    parser = program.parser(__doc__, repeats=5, caps=True)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--network", choices=["perceptron", "convolutions"], default="perceptron")
    options = parser.parse_args()
    machine.cap(options.caps)
    names, calm = [*WAYS, *PEERS], machine.Calm()
    seconds: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        timed(folder, "-c", EXPORT, str(folder), options.network, str(options.rows))
        for number in range(options.repeats):
            for name in rounds.in_turn(names, number):
                seconds[name].append(calm(partial(turn, folder, name)))
        check(folder)
    record = {"workload": "predicting", "network": options.network, "rows": options.rows, "seconds": seconds}
    for clock in ("alone", "whole"):
        speeds = {name: [options.rows / max(1e-9, one[clock]) for one in all] for name, all in seconds.items()}
        medians = {name: statistics.median(values) for name, values in speeds.items()}
        best = max(median for name, median in medians.items() if name.startswith(KERAS))
        print(f"{clock}, in rows/s:")
        for name, values in speeds.items():
            spread = (max(values) - min(values)) / medians[name]
            print(f"  {name:16} {medians[name]:12,.0f}  spread {spread:4.0%}  {medians[name] / best:5.2f} × keras")
        record[clock] = {"medians": medians, "ratios": {name: median / best for name, median in medians.items()}}
    program.write(options.out, {**record, "stolen": calm.stolen}, caps=options.caps)


if __name__ == "__main__":
    main()
