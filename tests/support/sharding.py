"""A recipe trained for a few steps in shards, to compare with the large batch, and recipes for it."""

import numpy as np
import pytest

from tapeline.config.train import TrainSettings
from tapeline.dataset.columns import Dataset

MODES = ["graph", *(pytest.param(mode, marks=pytest.mark.slow) for mode in ("eager", "xla"))]

STEEP = ("keras.optimizers.Adam(rate)", "keras.optimizers.SGD(0.1, momentum=0.9)")
NO_DROPOUT = ("keras.layers.Dropout(0.3),", "")
STEP = "        metrics = dict(super().train_step(batch, context))\n"
SEEN = ("        rate = keras", "        self.seen = tf.Variable(tf.zeros([4]), name='seen')\n        rate = keras")
RATE = (
    "        rate, more = tf.constant(0.0), metrics['loss']\n"
    "        if context.step > 0:\n"
    "            more = more * 2\n"
)
LOOPED = (
    "        rate, more = tf.constant(0.0), metrics['loss']\n"
    "        for k in tf.range(3.0):\n"
    "            rate, more = rate + k, more + k\n"
)
RATED = "        metrics['more'] = more\n        self.seen.assign(self.seen * 0.9 + rate)\n"
"""These are edits of `recipes.EVERYTHING`, or parts of them."""
TABLE = '''
"""An embedding, whose gradients are rows; the second network penalizes its own gradient."""
import keras, tensorflow as tf
from tapeline.recipe import Supervised

class Table(Supervised):
    inputs, target = ("image",), "label"

    def build(self):
        layers = [keras.Input((64,)), keras.layers.Embedding(17, 3), keras.layers.Flatten(), keras.layers.Dense(3)]
        self.model = keras.Sequential(layers)
        self.optimizer = keras.optimizers.SGD(0.1)

    def loss(self, batch, *, training):
        logits = self.model(tf.reshape(batch["image"], [-1, 64]), training=training)
        return tf.nn.sparse_softmax_cross_entropy_with_logits(batch["label"], logits), {}

    def predict(self, inputs):
        return {"class": tf.argmax(self.model(tf.reshape(inputs["image"], [-1, 64])), -1)}
'''
PENALTY = (
    ("keras.layers.Embedding(17, 3), keras.layers.Flatten(), ", 'keras.layers.Dense(4, "tanh"), '),
    ('tf.reshape(batch["image"], [-1, 64])', 'tf.reshape(tf.cast(batch["image"], tf.float32) / 16, [-1, 64])'),
    ('tf.reshape(inputs["image"], [-1, 64])', 'tf.reshape(tf.cast(inputs["image"], tf.float32) / 16, [-1, 64])'),
    (
        "    def predict",
        "    def train_step(self, batch, context):\n"
        "        with tf.GradientTape() as tape:\n"
        "            gradients, metrics = self.gradients(batch)\n"
        "            penalty = tf.add_n([tf.reduce_sum(tf.square(one)) for one in gradients])\n"
        "        self.update(self.optimizer, self.variables, tape.gradient(penalty, self.variables))\n"
        "        return metrics\n\n    def predict",
    ),
)
NORMALIZED = ('keras.layers.Dense(4, "tanh"), ', 'keras.layers.Dense(4, "tanh"), keras.layers.BatchNormalization(), ')
KEEPING = '''
"""What Python keeps between the meetings of a normalization: in a layer, a dict, an absent attribute, a new layer."""
import keras, tensorflow as tf
from tapeline.recipe import Supervised

SEEN = []

class Last(keras.layers.Layer):
    def build(self, shape):
        self.inner = keras.layers.Dense(8, activity_regularizer="l2", kernel_initializer="ones")

    def call(self, x):
        self.last = self.inner(x)
        return self.last

class Keeping(Supervised):
    inputs, target = ("image",), "label"

    def build(self):
        self.last = Last()
        dense = keras.layers.Dense(3, kernel_initializer="ones")
        normalization = keras.layers.BatchNormalization()
        self.model = keras.Sequential([keras.Input((64,)), self.last, normalization, dense])
        self.optimizer = keras.optimizers.SGD(0.01)
        self.kept, self.listed, self.memo = {}, [], None
        self.scaled = tf.function(lambda rows: rows * self.kept["rows"])

    def loss(self, batch, *, training):
        x = tf.reshape(tf.cast(batch["image"], tf.float32) / 16, [-1, 64])
        self.kept["rows"], self.kept["labels"] = x, batch["label"]
        self.listed.append(x)
        logits = self.model(x, training=training)
        if self.memo is None:
            self.memo = tf.reduce_mean(self.last.last * x[:, :8] * self.listed[-1][:, 8:16], -1)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(self.kept["labels"], logits)
        losses = losses * (1 + self.memo + tf.reduce_mean(self.kept["rows"], -1))
        self.memo = None
        self.listed.clear()
        self.kept.clear()
        return losses, {}

    def predict(self, inputs):
        return {"class": tf.argmax(self.model(tf.reshape(tf.cast(inputs["image"], tf.float32), [-1, 64])), -1)}
'''


class Trained:
    """The state after a few steps in this process, whatever threads TensorFlow has here."""

    def __init__(self, tf, recipe, data, params=None, *, steps=1, **settings):
        from tapeline.recipe import variables
        from tapeline.train.assembly import assemble

        def gentle(recipe):  # Adam divides by a gradient's size, and so enlarges rounding without bound
            import keras

            for name, optimizer in recipe.optimizers().items():
                if type(optimizer) is keras.optimizers.Adam and not settings.get("fused"):
                    setattr(recipe, name, keras.optimizers.SGD(0.05))

        given = {"epochs": 1, "batch_size": 16, **settings}
        self.parts = assemble(
            recipe, params or {}, TrainSettings.model_validate(given), Dataset.open(data), adapt=gentle
        )
        before = {n: v.numpy() for n, v in variables.find(self.parts.recipe).weights.items()}
        self.metrics = tf.zeros([len(self.parts.loop.names), 2], tf.float64)
        for chunk in self.parts.feed.chunks(0, steps):
            _, table, _ = self.parts.loop(chunk, chunk.first, chunk.end, self.metrics)
        self.metrics = dict(zip(self.parts.loop.names, table.numpy()[0], strict=True))
        found = variables.find(self.parts.recipe)
        self.state = {name: value.numpy() for name, value in {**found.weights, **found.optimizers}.items()}
        self.moved = max(np.abs(self.state[name] - value).max() for name, value in before.items())

    def agrees(self, large, within=1e-6):
        """Compare all state and metrics with those of the large batch, to float32 rounding."""
        assert large.moved > 1e-4, "the step does something"
        assert self.state.keys() == large.state.keys()
        for name, value in large.state.items():
            assert np.abs(self.state[name] - value).max() <= within * max(1.0, np.abs(value).max()), name
        for name, pair in large.metrics.items():
            assert self.metrics[name] == pytest.approx(pair, rel=1e-5), name
        return True
