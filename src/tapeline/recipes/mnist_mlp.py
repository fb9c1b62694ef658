"""Classify MNIST with Keras' functional API and plain stochastic gradient descent.

Two hidden layers of 64, sparse cross-entropy from logits. Images of shape (batch, 28, 28, 1), uint8, become rows of
784. After https://www.tensorflow.org/guide/keras/writing_a_training_loop_from_scratch.
"""

import keras
import tensorflow as tf

from tapeline.recipe import RecipeParams, Supervised, field


class MnistMlp(Supervised):
    inputs = ("image",)
    target = "label"

    class Params(RecipeParams):
        learning_rate: float = field(0.001, gt=0)

    def build(self):
        inputs = keras.Input((784,), name="digits")
        hidden = keras.layers.Dense(64, activation="relu")(inputs)
        hidden = keras.layers.Dense(64, activation="relu")(hidden)
        outputs = keras.layers.Dense(10, name="predictions", dtype="float32")(hidden)
        self.model = keras.Model(inputs, outputs)
        self.optimizer = keras.optimizers.SGD(self.params.learning_rate)

    def logits(self, images, *, training):
        return self.model(tf.reshape(tf.cast(images, tf.float32) / 255.0, [-1, 784]), training=training)

    def loss(self, batch, *, training):
        logits = self.logits(batch["image"], training=training)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(batch["label"], logits)
        return losses, {"accuracy": tf.equal(tf.argmax(logits, -1), batch["label"])}

    def predict(self, inputs):
        logits = self.logits(inputs["image"], training=False)
        return {"class": tf.argmax(logits, -1), "probabilities": tf.nn.softmax(logits)}
