"""Averaging, fused kernels, drawn data: each against its definition, and resumable like everything else."""

import csv
import io

import datasets
import numpy as np
import pytest
import recipes
from trainings import Crash, Lengths, Run, crash_after

from tapeline.runtime.errors import InputError


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


@pytest.mark.parametrize(
    ("edits", "settings", "said"),
    [
        (
            (("keras.optimizers.Adam(rate)", "keras.optimizers.Adagrad(rate)"),),
            {"fused": True},
            "Adagrad has no fused kernel: use Adam, SGD",
        ),
        (
            (("Adam(rate)", "Adam(rate, clipnorm=1.0)"),),
            {"fused": True},
            "Adam with clipnorm has no fused kernel: use train.gradients instead",
        ),
    ],
)
def test_what_would_not_be_as_asked_is_refused(make, edits, settings, said):
    with pytest.raises(InputError) as raised:
        make("refused", *edits, **settings)()
    assert said in str(raised.value)


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


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["graph", pytest.param("xla", marks=pytest.mark.long)])
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
    "optimizer",
    [
        "Adam(rate)",
        pytest.param("SGD(rate, momentum=0.9, nesterov=True)", marks=pytest.mark.slow),
        pytest.param("SGD(rate)", marks=pytest.mark.slow),
        pytest.param("SGD(rate, momentum=0.9)", marks=pytest.mark.slow),
    ],
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


@pytest.mark.in_ci(1)
@pytest.mark.slow
@pytest.mark.parametrize("mode", [*SLOW_XLA, pytest.param("eager", marks=pytest.mark.slow)])
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


@pytest.mark.slow
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
