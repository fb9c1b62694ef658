"""Learn to learn sine waves from ten points: MAML, second order (Finn et al. 2017).

A task is a wave of its own amplitude and phase. `adapt` takes one gradient step on a task's ten points, by hand and
for all tasks of a batch at once: each has its own copy of the weights, with a leading dimension. The outer tape
differentiates through that step. Points have shape (tasks, points, 1). https://arxiv.org/abs/1703.03400, section 5.1
"""

import math

import keras
import tensorflow as tf

from tapeline.recipe import Recipe, RecipeParams, field


class SinusoidMaml(Recipe):
    inputs = ("support_x", "support_y", "query_x")
    target = "query_y"
    modes = {"graph": ("float32",), "xla": ("float32",), "eager": ("float32",)}

    class Params(RecipeParams):
        learning_rate: float = field(0.001, gt=0)
        inner_rate: float = field(0.01, gt=0)
        hidden: int = field(40, gt=0)
        shots: int = field(10, gt=0)
        decay_steps: int = field(20000, gt=0)

    def build(self):
        sizes = (1, self.params.hidden, self.params.hidden, 1)
        glorot = keras.initializers.GlorotUniform()
        self.weights = []
        for number, shape in enumerate(zip(sizes, sizes[1:])):
            self.weights.append(tf.Variable(glorot(shape), name=f"w{number}"))
            self.weights.append(tf.Variable(tf.zeros([1, shape[1]]), name=f"b{number}"))
        rate = keras.optimizers.schedules.CosineDecay(self.params.learning_rate, self.params.decay_steps)
        self.optimizer = keras.optimizers.Adam(rate)

    def prepare(self, batch, context):
        shots, (one, two) = self.params.shots, tf.unstack(tf.random.split(context.seed, 2))
        wave = tf.random.stateless_uniform([self.batch_size, 1, 2], one)
        x = tf.random.stateless_uniform([self.batch_size, 2 * shots, 1], two, -5.0, 5.0)
        y = (0.1 + 4.9 * wave[..., :1]) * tf.sin(x + math.pi * wave[..., 1:])
        return {"support_x": x[:, :shots], "support_y": y[:, :shots], "query_x": x[:, shots:], "query_y": y[:, shots:]}

    def train_step(self, batch, context):
        with tf.GradientTape() as tape:
            metrics = self.eval_step(batch, context)
            loss = tf.reduce_mean(metrics["loss"])
        self.update(self.optimizer, self.weights, tape.gradient(loss, self.weights))
        return metrics

    def eval_step(self, batch, context):
        before = squared_error(self.weights, batch["query_x"], batch["query_y"])
        adapted = self.adapt(batch["support_x"], batch["support_y"])
        return {"loss": squared_error(adapted, batch["query_x"], batch["query_y"]), "loss_before": before}

    def adapt(self, x, y):
        """Return each task's weights after one step of gradient descent on its own points."""
        weights = [tf.tile(weight[None], [tf.shape(x)[0], 1, 1]) for weight in self.weights]
        with tf.GradientTape() as tape:
            tape.watch(weights)
            losses = squared_error(weights, x, y)
        return [w - self.params.inner_rate * g for w, g in zip(weights, tape.gradient(losses, weights))]

    def predict(self, inputs):
        weights = self.adapt(inputs["support_x"], inputs["support_y"])
        return {"query_y": network(weights, inputs["query_x"]), "before": network(self.weights, inputs["query_x"])}


def network(weights, x):
    """Return outputs (tasks, points, 1); weights may have a leading dimension of tasks or none."""
    (w0, b0), (w1, b1), (w2, b2) = zip(weights[::2], weights[1::2])
    return tf.nn.relu(tf.nn.relu(x @ w0 + b0) @ w1 + b1) @ w2 + b2


def squared_error(weights, x, y):
    """Return each task's mean squared error."""
    return tf.reduce_mean(tf.square(network(weights, x) - y), [1, 2])
