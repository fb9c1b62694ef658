"""Fit a plane with a bare `tf.Module`: no Keras layer, the whole method in view.

The smallest system that has everything a custom loop has: variables W (2, 1) and b (1,), the mean squared
error, a tape, and plain stochastic gradient descent.
"""

import keras
import tensorflow as tf

from tapeline.recipe import RecipeParams, Supervised, field


class Plane(tf.Module):
    """x W + b, for x of shape (batch, 2)."""

    def __init__(self):
        super().__init__()
        self.weights = tf.Variable(tf.random.normal([2, 1]), name="weights")
        self.bias = tf.Variable(tf.zeros([1]), name="bias")

    def __call__(self, x):
        return x @ self.weights + self.bias


class LinearRegression(Supervised):
    inputs = ("x",)
    target = "y"
    modes = {"graph": ("float32",), "xla": ("float32",), "eager": ("float32",)}

    class Params(RecipeParams):
        learning_rate: float = field(0.01, gt=0)

    def build(self):
        self.model = Plane()
        self.optimizer = keras.optimizers.SGD(self.params.learning_rate)

    def loss(self, batch, *, training):
        return tf.reduce_mean(tf.square(batch["y"] - self.model(batch["x"])), axis=-1), {}

    def predict(self, inputs):
        return {"y": self.model(inputs["x"])}
