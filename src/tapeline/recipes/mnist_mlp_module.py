"""Classify MNIST with two matrices in a bare `tf.Module`.

A multi-layer perceptron 784-128-10 without any layer class: weights from a normal distribution, one-hot labels,
softmax cross-entropy, Adam. Images of shape (batch, 28, 28, 1), uint8.
"""

import keras
import tensorflow as tf

from tapeline.recipe import RecipeParams, Supervised, field


class Mlp(tf.Module):
    """Logits of shape (batch, 10) for x of shape (batch, 784)."""

    def __init__(self):
        super().__init__()
        self.w1 = tf.Variable(tf.random.normal([784, 128]), name="w1")
        self.b1 = tf.Variable(tf.zeros([128]), name="b1")
        self.w2 = tf.Variable(tf.random.normal([128, 10]), name="w2")
        self.b2 = tf.Variable(tf.zeros([10]), name="b2")

    def __call__(self, x):
        return tf.nn.relu(x @ self.w1 + self.b1) @ self.w2 + self.b2


class MnistMlpModule(Supervised):
    inputs = ("image",)
    target = "label"
    modes = {"graph": ("float32",), "xla": ("float32",), "eager": ("float32",)}

    class Params(RecipeParams):
        learning_rate: float = field(0.001, gt=0)

    def build(self):
        self.model = Mlp()
        self.optimizer = keras.optimizers.Adam(self.params.learning_rate)

    def logits(self, images):
        return self.model(tf.reshape(tf.cast(images, tf.float32) / 255.0, [-1, 784]))

    def loss(self, batch, *, training):
        logits = self.logits(batch["image"])
        losses = tf.nn.softmax_cross_entropy_with_logits(tf.one_hot(batch["label"], 10), logits)
        return losses, {"accuracy": tf.equal(tf.argmax(logits, -1), batch["label"])}

    def predict(self, inputs):
        logits = self.logits(inputs["image"])
        return {"class": tf.argmax(logits, -1), "probabilities": tf.nn.softmax(logits)}
