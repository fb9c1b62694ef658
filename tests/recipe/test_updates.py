"""What `update` makes of gradients, against the formulas: tables, loss scales, constraints, noise."""

import datasets
import numpy as np
import pytest
import recipes
import trainings

from tapeline.runtime.errors import InputError

OPTIMIZER = "keras.optimizers.SGD(self.params.learning_rate)"


@pytest.fixture
def line(tmp_path, tf):
    """Return a function: edits, settings → the weights of a line before and after its first steps."""
    data = datasets.points(tmp_path / "points").folder

    def call(*edits, count=2, **settings):
        parts = trainings.steps(recipes.write(tmp_path, recipes.LINE, *edits), data, count, batch_size=8, **settings)
        return [variable.numpy() for variable in parts.recipe.model.trainable_variables]

    return call


@pytest.mark.first(1)
@pytest.mark.parametrize("optimizer", ["Adam(0.1)", "SGD(0.1)"])
@pytest.mark.parametrize("settings", [{}, {"shards": 2}], ids=["whole", "shards"])
def test_fused_updates_obey_constraints(line, optimizer, settings):
    limits = "Dense(1, kernel_constraint=keras.constraints.MaxNorm(0.05), bias_constraint=keras.constraints.NonNeg())"
    edits = ((OPTIMIZER, f"keras.optimizers.{optimizer}"), ("Dense(1)", limits))
    kernel, bias = line(*edits, fused=True, **settings)
    assert np.linalg.norm(kernel) < 0.051 and bias.min() >= 0
    assert np.allclose(kernel, line(*edits, **settings)[0], atol=1e-5)


@pytest.mark.first(1)
@pytest.mark.parametrize(
    "scaled", ["SGD(0.1, loss_scale_factor=128.0)", "LossScaleOptimizer(keras.optimizers.SGD(0.1))"]
)
def test_a_loss_scale_changes_no_update(line, scaled):
    for kernel, expected in zip(line((OPTIMIZER, f"keras.optimizers.{scaled}")), line(), strict=True):
        assert np.allclose(kernel, expected, rtol=1e-4)


@pytest.mark.parametrize(
    ("optimizer", "settings", "said"),
    [
        (
            "SGD(0.1, loss_scale_factor=8.0)",
            {"gradients": {"optimizer": {"clip_norm": 1.0}}},
            "^train.gradients names optimizer, which scales the loss",
        ),
        (
            "LossScaleOptimizer(keras.optimizers.SGD(0.1))",
            {"gradients": {"optimizer": {"clip_norm": 1.0}}},
            "^train.gradients names optimizer, which scales the loss",
        ),
        ("SGD(0.1, use_ema=True)", {}, "^self.optimizer has use_ema, .*: set train.ema, or ema_overwrite_frequency$"),
    ],
)
def test_what_an_optimizer_would_not_do_as_asked_is_refused(line, optimizer, settings, said):
    with pytest.raises(InputError, match=said):
        line((OPTIMIZER, f"keras.optimizers.{optimizer}"), **settings)


def test_averages_that_nobody_uses_are_refused_wherever_the_optimizer_is(line):
    """An agent's, or a compiled model's, trained on, and its averages were thrown away."""
    agents = "    @property\n    def optimizer(self):\n        return self.agents['one'][0]\n\n    def loss"
    kept = (f"self.optimizer = {OPTIMIZER}", "self.agents = {'one': [keras.optimizers.Adam(use_ema=True)]}")
    with pytest.raises(InputError, match="Adam has use_ema, but its averages would never reach the weights"):
        line(kept, ("    def loss", agents))


@pytest.mark.parametrize("name", ["opt", "optimizer"])
def test_an_optimizer_in_two_attributes_has_both_names(line, name):
    limit = {"clip_value": 0.001}
    both = line((OPTIMIZER, f"self.opt = {OPTIMIZER}"), gradients={name: limit})
    for value, expected in zip(both, line(gradients={"optimizer": limit}), strict=True):
        assert np.array_equal(value, expected)


TABLE = """
import keras, tensorflow as tf
from tapeline.recipe import Recipe

class Table(Recipe):
    inputs, target = ("image",), "label"

    def build(self):
        self.table = tf.Variable(tf.reshape(tf.range(34.0) / 34.0, [17, 2]))
        self.optimizer = keras.optimizers.OPTIMIZER

    def train_step(self, batch, context):
        places = tf.cast(tf.reshape(batch["image"], [-1]), tf.int32)
        with tf.GradientTape() as tape:
            rows = LOOKUP
            loss = tf.reduce_sum(tf.square(rows - [1.0, 0.3])) / 100.0
        self.update(self.optimizer, [self.table], tape.gradient(loss, [self.table]))
        return {"loss": tf.ones_like(batch["label"])}

    def eval_step(self, batch, context):
        return {"loss": tf.ones_like(batch["label"])}
"""


@pytest.mark.parametrize("mode", ["graph", pytest.param("xla", marks=pytest.mark.slow), "eager"])
@pytest.mark.parametrize(
    ("optimizer", "settings"),
    [
        ("SGD(1.0)", {"gradients": {"optimizer": {"clip_value": 0.01}}}),
        ("SGD(1.0)", {"gradients": {"optimizer": {"clip_global_norm": 0.05, "weight_decay": 0.1}}, "shards": 2}),
        ("Adam(0.01)", {"fused": True}),
        ("Adam(0.01)", {}),
    ],
)
def test_rows_of_a_table_that_come_again_are_summed_first(tmp_path, tf, optimizer, settings, mode):
    data = datasets.blobs(tmp_path / "blobs").folder
    found = []
    for lookup in ("tf.gather(self.table, places)", "tf.one_hot(places, 17) @ tf.convert_to_tensor(self.table)"):
        source = TABLE.replace("OPTIMIZER", optimizer).replace("LOOKUP", lookup)
        parts = trainings.steps(recipes.write(tmp_path, source), data, 2, compile=mode, **settings)
        found.append(parts.recipe.table.numpy())
    assert np.allclose(*found, rtol=1e-4, atol=1e-6)


NOISE = """
import keras, tensorflow as tf
from tapeline.recipe import Recipe

class Noisy(Recipe):
    def build(self):
        self.a, self.b = tf.Variable(tf.zeros([1000])), tf.Variable(tf.zeros([1000]))
        self.one, self.two = keras.optimizers.SGD(1.0), keras.optimizers.SGD(1.0)

    def train_step(self, batch, context):
        for _ in range(4):
            self.update(self.one, [self.a], [tf.zeros([1000])])
        self.update(self.two, [self.b], [tf.zeros([1000])])
        return {"loss": tf.ones_like(batch["label"])}

    def eval_step(self, batch, context):
        return {"loss": tf.ones_like(batch["label"])}
"""


@pytest.mark.parametrize("mode", ["graph", pytest.param("xla", marks=pytest.mark.slow), "eager"])
def test_each_update_has_noise_of_its_own(tmp_path, tf, mode):
    data = datasets.blobs(tmp_path / "blobs").folder
    noise = {"one": {"noise": 1.0}, "two": {"noise": 1.0}}
    recipe = trainings.steps(recipes.write(tmp_path, NOISE), data, compile=mode, gradients=noise).recipe
    one, two = recipe.a.numpy(), recipe.b.numpy()
    assert abs(one.std() - 2.0) < 0.2 and abs(two.std() - 1.0) < 0.1
    assert abs(np.corrcoef(one, two)[0, 1]) < 0.15


def test_updates_that_accumulate_have_noise_of_their_own_too(tmp_path, tf):
    """The four updates are applied as two means of two: with the same noise in both, their spread would be 1.4."""
    data = datasets.blobs(tmp_path / "blobs").folder
    accumulating = NOISE.replace("self.one, self.two = keras.optimizers.SGD(1.0)", "self.one, self.two = SGD").replace(
        "SGD,", "keras.optimizers.SGD(1.0, gradient_accumulation_steps=2),"
    )
    noise = {"one": {"noise": 1.0}}
    one = trainings.steps(recipes.write(tmp_path, accumulating), data, gradients=noise).recipe.a.numpy()
    assert abs(one.std() - 1.0) < 0.1


def test_gradients_that_accumulate_are_transformed(line):
    accumulating = (OPTIMIZER, OPTIMIZER.replace(")", ", gradient_accumulation_steps=2)"))
    limit = {"optimizer": {"clip_value": 1e-3}}
    before, first, second = (line(accumulating, count=count, gradients=limit)[0] for count in range(3))
    assert np.array_equal(before, first)
    assert 0 < np.abs(second - before).max() <= 1.01e-4
