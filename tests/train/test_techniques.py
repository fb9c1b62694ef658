"""Accumulation, averaging, fused kernels, drawn data: each against its definition, and resumable like everything else."""

import csv
import io
import json
import subprocess
import sys

import datasets
import numpy as np
import pytest
import recipes
from trainings import Crash, Lengths, Run, crash_after

from tapeline.dataset.columns import Dataset
from tapeline.runtime.errors import InputError

NO_NORM = (
    "keras.layers.Dense(16, use_bias=False), keras.layers.BatchNormalization(), keras.layers.ReLU(),",
    "keras.layers.Dense(16),",
)
NO_DROPOUT = ("keras.layers.Dropout(0.3),", "")
NO_POISON = ("self.model.layers[3].moving_mean.assign_add", "tf.identity")


@pytest.fixture
def make(tmp_path, tf):
    data = datasets.blobs(tmp_path / "blobs").folder

    def run(label, *edits, **settings):
        recipe = recipes.write(tmp_path / label, recipes.EVERYTHING, *edits)
        return Run(tmp_path / label, recipe, data, **{"epochs": 3, "batch_size": 16, **settings})

    return run


def weights(run, tf):
    """Return the kept weights by name."""
    stored = tf.train.load_checkpoint(str(run.out / "weights" / "weights"))
    return {name: stored.get_tensor(name) for name in stored.get_variable_to_shape_map()}


def history(run):
    return list(csv.DictReader(io.StringIO((run.out / "history.csv").read_text())))


def own_step(*edits):
    """A recipe's own `train_step` is taken out: accumulation is `Supervised`'s."""
    source = recipes.EVERYTHING
    start, end = source.index("    def train_step"), source.index("    def predict")
    return (source[start:end], ""), *edits


@pytest.mark.parametrize("mode", ["graph", "xla", "eager"])
def test_accumulation_is_the_large_batch(make, tf, mode):
    plain = own_step(NO_NORM, NO_DROPOUT)
    large = weights(make("large", *plain, compile=mode)(), tf)
    small = make("small", *plain, compile=mode, accumulate=4)()
    for name, value in weights(small, tf).items():
        assert np.abs(value - large[name]).max() <= 1e-6 * max(1.0, np.abs(large[name]).max()), name
    rows = history(small)
    assert len(rows) == 3
    assert float(rows[-1]["loss"]) == pytest.approx(
        float(history(make("large", *plain, compile=mode))[-1]["loss"]), rel=1e-5
    )


REPLICAS = """
import json, os, sys
sys.path[:0] = json.loads(sys.argv[1])
from pathlib import Path
from trainings import Crash, Lengths, Run, crash_after

folder, data = Path(sys.argv[2]), Path(sys.argv[3])

def run(label, recipe, **settings):
    return Run(folder / label, folder / recipe / "recipe.py", data, epochs=3, batch_size=16, **settings)

run("two", "plain", replicas=2)()
import tensorflow as tf
threads = tf.config.threading
assert (threads.get_intra_op_parallelism_threads(), threads.get_inter_op_parallelism_threads()) == (1, 2)
run("four", "plain", replicas=2, accumulate=2)()
eight = run("eight", "plain", replicas=2)
os.sched_getaffinity = lambda pid: {0}
assert "train.replicas is 2, more than there are cores here: 1" in eight().notes
run("large", "plain")()
whole = run("whole", "dropout", replicas=2)().outs()
cut = run("cut", "dropout", replicas=2, checkpoint={"every_steps": 1})
try:
    cut(hooks=[crash_after(7)], pace=Lengths(1))
except Crash:
    pass
assert cut.saved()
assert cut().outs() == whole
"""


@pytest.mark.slow
def test_replicas_are_the_large_batch_and_resume(tmp_path, tf):
    """In a process of its own: each replica has a core, which TensorFlow has to know when it begins."""
    data = datasets.blobs(tmp_path / "blobs").folder
    recipes.write(tmp_path / "plain", recipes.EVERYTHING, *own_step(NO_NORM, NO_DROPOUT))
    recipes.write(tmp_path / "dropout", recipes.EVERYTHING, *own_step(NO_NORM))
    command = [sys.executable, "-c", REPLICAS, json.dumps(sys.path), str(tmp_path), str(data)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    two, four, large = (
        weights(Run(tmp_path / label, tmp_path, data, epochs=3, batch_size=16), tf)
        for label in ("two", "four", "large")
    )
    for name, value in large.items():
        for small in (two, four):
            assert np.abs(value - small[name]).max() <= 1e-6 * max(1.0, np.abs(value).max()), name


def test_each_replica_has_a_dropout_mask_of_its_own(tf):
    import keras

    from tapeline.recipe.micro_batches import side_by_side

    dropout, masks = keras.layers.Dropout(0.5, seed=1), []

    def step(batch):
        masks.append(dropout(batch["ones"], training=True))
        return [tf.reduce_mean(masks[-1])], {"loss": tf.zeros(2)}

    @tf.function(autograph=False)
    def both():
        side_by_side(step, 2)({"ones": tf.ones([8, 100])})
        return masks[:2]

    first, second = both()
    assert first.shape == (4, 100) and not np.array_equal(first, second)


@pytest.mark.parametrize(
    ("edits", "said"),
    [
        (own_step(), "train.replicas is 2: batch_normalization normalizes each micro-batch by itself"),
        ((NO_NORM, NO_POISON), "train.replicas is 2: Everything writes its own step, so it must do that"),
    ],
)
def test_what_cannot_be_replicated_is_refused(make, edits, said):
    from tapeline.train.assembly import assemble

    run = make("refused", *edits, replicas=2)
    with pytest.raises(InputError) as raised:
        assemble(run.recipe, {}, run.settings, Dataset.open(run.dataset))
    assert str(raised.value).startswith(said)


def test_replicas_need_threads_that_tensorflow_has_not_begun_with(make):
    with pytest.raises(InputError, match="train.replicas is 2: TensorFlow has begun with other threads"):
        make("late", *own_step(NO_NORM), replicas=2)()


@pytest.mark.slow
def test_accumulation_with_dropout_resumes(make):
    edits = own_step(NO_NORM)
    whole = make("whole", *edits, accumulate=2)().outs()
    cut = make("cut", *edits, accumulate=2, checkpoint={"every_steps": 1})
    with pytest.raises(Crash):
        cut(hooks=[crash_after(7)], pace=Lengths(1))
    assert cut().outs() == whole


@pytest.mark.parametrize(
    ("edits", "settings", "said"),
    [
        (own_step(), {"accumulate": 2}, "batch_normalization normalizes each micro-batch by itself"),
        ((NO_NORM, NO_POISON), {"accumulate": 2}, "Everything writes its own step, so it must do that"),
        (
            (("keras.optimizers.Adam(rate)", "keras.optimizers.Adagrad(rate)"),),
            {"fused": True},
            "Adagrad has no fused kernel; Adam, SGD",
        ),
        (
            (("Adam(rate)", "Adam(rate, clipnorm=1.0)"),),
            {"fused": True},
            "Adam with clipnorm has no fused kernel; use train.gradients",
        ),
    ],
)
def test_what_would_not_be_as_asked_is_refused(make, edits, settings, said):
    with pytest.raises(InputError) as raised:
        make("refused", *edits, **settings)()
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"accumulate": 3}, "accumulate is 3, which does not divide batch_size 16"),
        ({"replicas": 5}, "replicas is 5, which does not divide batch_size 16"),
        ({"accumulate": 8, "replicas": 4}, "accumulate is 8 and replicas is 4, which does not divide batch_size 16"),
        ({"replicas": 2, "compile": "xla"}, "replicas needs compile graph: xla does not run them side by side"),
    ],
)
def test_what_does_not_cut_the_batch_into_equal_parts(make, settings, said):
    with pytest.raises(ValueError, match=said):
        make("odd", **settings)


def test_a_policy_that_nothing_obeys_is_refused(tmp_path, tf, root):
    recipe = root / "src/tapeline/recipes/linear_regression.py"
    text = recipe.read_text().replace('modes = {"graph": ("float32",), "xla": ("float32",), "eager": ("float32",)}', "")
    changed = tmp_path / "recipe.py"
    changed.write_text(text)
    run = Run(
        tmp_path, changed, datasets.points(tmp_path / "p").folder, epochs=1, batch_size=2, precision="mixed_bfloat16"
    )
    with pytest.raises(InputError, match="train.precision is mixed_bfloat16: LinearRegression has no Keras layer"):
        run()


SLOW_XLA = ["graph", pytest.param("xla", marks=pytest.mark.slow)]


@pytest.mark.parametrize("mode", SLOW_XLA)
def test_the_average_is_kept_measured_and_resumed(make, tf, mode):
    """Against the definition, from the weights after each step of the same run without averaging."""

    def after(epochs):
        return weights(make(f"plain{epochs}", epochs=epochs, batch_size=100, compile=mode)(), tf)

    initial = initial_weights(make("initial", batch_size=100), tf)
    one, two = after(1), after(2)
    expected = {name: 0.9 * (0.9 * initial[name] + 0.1 * one[name]) + 0.1 * two[name] for name in initial}
    averaged = make("averaged", epochs=2, batch_size=100, compile=mode, ema=0.9)()
    for name, value in weights(averaged, tf).items():
        assert np.allclose(value, expected[name], rtol=1e-5, atol=1e-6), name
    plain_rows, rows = history(make("plain2", epochs=2, batch_size=100)), history(averaged)
    assert rows[-1]["loss"] == plain_rows[-1]["loss"], "training is not changed by it"
    assert rows[-1]["val_loss"] != plain_rows[-1]["val_loss"]

    cut = make(
        "cut", epochs=4, ema=0.9, best={"metric": "loss", "mode": "min"}, checkpoint={"every_steps": 1}, compile=mode
    )
    whole = make("whole", epochs=4, ema=0.9, best={"metric": "loss", "mode": "min"}, compile=mode)().outs()
    with pytest.raises(Crash):
        cut(hooks=[crash_after(13)], pace=Lengths(1))
    assert cut().outs() == whole


def initial_weights(run, tf):
    from tapeline.dataset.columns import Dataset
    from tapeline.recipe import loading, variables

    built = loading.build(run.recipe, {}, Dataset.open(run.dataset).features)
    return {name: value.numpy() for name, value in variables.find(built).weights.items()}


@pytest.mark.parametrize(
    "optimizer", ["Adam(rate)", "SGD(rate)", "SGD(rate, momentum=0.9)", "SGD(rate, momentum=0.9, nesterov=True)"]
)
@pytest.mark.parametrize("mode", SLOW_XLA)
def test_fused_kernels_compute_keras_update(make, tf, optimizer, mode):
    edits = (("keras.optimizers.Adam(rate)", f"keras.optimizers.{optimizer}"),)
    keras_own = weights(make("keras", *edits, epochs=1, batch_size=32, compile=mode)(), tf)
    fused = weights(make("fused", *edits, epochs=1, batch_size=32, compile=mode, fused=True)(), tf)
    for name, value in fused.items():
        assert np.allclose(value, keras_own[name], rtol=1e-4, atol=1e-5), name


NETWORK = '''
"""Two convolutions and their normalizations."""
import keras, tensorflow as tf
from tapeline.recipe import Supervised

class Network(Supervised):
    inputs, target = ("image",), "label"

    def build(self):
        inputs = keras.Input((6, 6, 1))
        x = inputs
        for filters in (4, 8):
            x = keras.layers.Conv2D(filters, 3, padding="same", use_bias=False)(x)
            x = keras.layers.ReLU()(keras.layers.BatchNormalization()(x))
        self.model = keras.Model(inputs, keras.layers.Dense(3)(keras.layers.GlobalAveragePooling2D()(x)))
        self.optimizer = keras.optimizers.SGD(0.1, momentum=0.9)

    def loss(self, batch, *, training):
        logits = self.model(batch["image"], training=training)
        return tf.nn.sparse_softmax_cross_entropy_with_logits(batch["label"], logits), {}
'''


@pytest.mark.parametrize("mode", [*SLOW_XLA, "eager"])
def test_fused_normalization_is_near_keras_and_resumes(tmp_path, tf, mode):
    random = np.random.default_rng(3)
    columns = {
        "image": random.normal(size=(64, 6, 6, 1)).astype(np.float32),
        "label": random.integers(0, 3, 64),
    }
    data = datasets.write(tmp_path / "images", {"train": columns, "val": columns}).folder
    recipe = recipes.write(tmp_path, NETWORK)

    def run(label, **changes):
        return Run(tmp_path / label, recipe, data, **{"epochs": 3, "batch_size": 16, "compile": mode, **changes})

    whole = run("whole", fused=True)(pace=Lengths(50))
    cut = run("cut", fused=True, checkpoint={"every_steps": 1})
    with pytest.raises(Crash):
        cut(hooks=[crash_after(7)], pace=Lengths(1, 2))
    assert cut(pace=Lengths(1)).outs() == whole.outs()
    plain = run("plain")()
    assert plain.outs()["weights/weights.data-00000-of-00001"] != whole.outs()["weights/weights.data-00000-of-00001"]
    for name, value in weights(whole, tf).items():
        assert np.allclose(value, weights(plain, tf)[name], rtol=1e-3, atol=1e-4), name


DRAWN = '''
"""Fits y = 3 x from points that it draws itself."""
import keras, tensorflow as tf
from tapeline.recipe import Supervised

class Drawn(Supervised):
    inputs, target = ("x",), "y"

    def build(self):
        self.model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
        self.optimizer = keras.optimizers.SGD(0.1)

    def prepare(self, batch, context):
        return {"x": tf.random.stateless_uniform([self.batch_size, 1], context.seed)}

    def loss(self, batch, *, training):
        y = batch["y"] if not training else 3.0 * batch["x"]
        return tf.reduce_mean(tf.square(y - self.model(batch["x"])), -1), {}
'''


@pytest.mark.parametrize("mode", [*SLOW_XLA, "eager"])
def test_a_recipe_that_draws_its_data(tmp_path, tf, mode):
    x = np.linspace(0, 1, 9, dtype=np.float32)[:, None]
    data = datasets.write(tmp_path / "fixed", {"val": {"x": x, "y": 3 * x}}).folder
    recipe = recipes.write(tmp_path, DRAWN)

    def run(label, **changes):
        settings = {"epochs": 4, "batch_size": 16, "steps_per_epoch": 25, "compile": mode, **changes}
        return Run(tmp_path / label, recipe, data, **settings)

    whole = run("whole")()
    assert float(history(whole)[-1]["val_loss"]) < 0.1 < float(history(whole)[0]["val_loss"])
    cut = run("cut", checkpoint={"every_steps": 10})
    with pytest.raises(Crash):
        cut(hooks=[crash_after(40)], pace=Lengths(10))
    assert cut().outs() == whole.outs()
    with pytest.raises(InputError, match="has no train split; a recipe that draws its training data needs"):
        run("none", steps_per_epoch=None)()
