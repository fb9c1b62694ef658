"""Tell classes apart by columns of numbers: inputs standardized, one hidden layer."""

import keras
import tensorflow as tf

from tapeline.recipe import RecipeParams, Supervised, field


class TITLE_(Supervised):
    inputs, target = ("x",), "TARGET_"

    class Params(RecipeParams):
        learning_rate: float = field(0.01, gt=0)
        units: int = field(32, gt=0)

    def build(self):
        x = self.statistics["x"]
        layers = [
            keras.Input(self.features["x"].shape),
            keras.layers.Normalization(mean=x.mean, variance=x.std**2),
            keras.layers.Dense(self.params.units, activation="relu"),
            keras.layers.Dense(len(self.features["TARGET_"].classes)),
        ]
        self.model = keras.Sequential(layers)
        self.optimizer = keras.optimizers.Adam(self.params.learning_rate)

    def loss(self, batch, *, training):
        logits = self.model(batch["x"], training=training)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(batch["TARGET_"], logits)
        return losses, {"accuracy": tf.equal(tf.argmax(logits, -1), batch["TARGET_"])}

    def predict(self, inputs):
        logits = self.model(inputs["x"], training=False)
        return {"class": tf.argmax(logits, -1), "probabilities": tf.nn.softmax(logits)}
