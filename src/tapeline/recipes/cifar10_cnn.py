"""Classify CIFAR-10 with three convolutions, two poolings and two dense layers: 122 570 parameters.

Images of shape (batch, 32, 32, 3), uint8. In bfloat16 about twice as fast where the CPU has it: `tapeline tune`.
"""

import keras
import tensorflow as tf
from keras import layers

from tapeline.recipe import RecipeParams, Supervised, field


class Cifar10Cnn(Supervised):
    inputs = ("image",)
    target = "label"
    modes = {"graph": ("float32", "mixed_bfloat16"), "eager": ("float32",)}  # XLA's convolutions are slow on CPUs

    class Params(RecipeParams):
        learning_rate: float = field(0.001, gt=0)

    def build(self):
        self.model = keras.Sequential(
            [
                keras.Input((32, 32, 3)),
                layers.Conv2D(32, 3, activation="relu"),
                layers.MaxPooling2D(),
                layers.Conv2D(64, 3, activation="relu"),
                layers.MaxPooling2D(),
                layers.Conv2D(64, 3, activation="relu"),
                layers.Flatten(),
                layers.Dense(64, activation="relu"),
                layers.Dense(10, dtype="float32"),
            ]
        )
        self.optimizer = keras.optimizers.Adam(self.params.learning_rate)

    def logits(self, images, *, training):
        return self.model(tf.cast(images, tf.float32) / 255.0, training=training)

    def loss(self, batch, *, training):
        logits = self.logits(batch["image"], training=training)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(batch["label"], logits)
        return losses, {"accuracy": tf.equal(tf.argmax(logits, -1), batch["label"])}

    def predict(self, inputs):
        logits = self.logits(inputs["image"], training=False)
        return {"class": tf.argmax(logits, -1), "probabilities": tf.nn.softmax(logits)}
