"""A perceptron with one hidden layer of any width, in a bare `tf.Module`, for the scaling plots."""

import keras
import tensorflow as tf

from tapeline.recipe import RecipeParams, Supervised, field


class Layers(tf.Module):
    """Logits of shape (batch, 10) for x of shape (batch, 784)."""

    def __init__(self, hidden):
        super().__init__()
        self.w1 = tf.Variable(tf.random.normal([784, hidden]) / 28.0, name="w1")
        self.b1 = tf.Variable(tf.zeros([hidden]), name="b1")
        self.w2 = tf.Variable(tf.random.normal([hidden, 10]) / hidden**0.5, name="w2")
        self.b2 = tf.Variable(tf.zeros([10]), name="b2")

    def __call__(self, x):
        return tf.nn.relu(x @ self.w1 + self.b1) @ self.w2 + self.b2


class Perceptron(Supervised):
    modes = {"graph": ("float32",), "xla": ("float32",), "eager": ("float32",)}

    class Params(RecipeParams):
        hidden: int = field(128, gt=0)

    def build(self):
        self.model = Layers(self.params.hidden)
        self.optimizer = keras.optimizers.Adam(0.001)

    def loss(self, batch, *, training):
        x = tf.reshape(tf.cast(batch["image"], tf.float32) / 255.0, [-1, 784])
        logits = self.model(x)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(batch["label"], logits)
        return losses, {"accuracy": tf.equal(tf.argmax(logits, -1), batch["label"])}
