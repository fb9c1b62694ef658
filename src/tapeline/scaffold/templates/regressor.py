"""Predict a number from columns of numbers: inputs and target standardized, one hidden layer."""

import keras
import tensorflow as tf

from tapeline.recipe import RecipeParams, Supervised, field


class TITLE_(Supervised):
    inputs, target = ("x",), "TARGET_"

    class Params(RecipeParams):
        learning_rate: float = field(0.01, gt=0)
        units: int = field(32, gt=0)

    def build(self):
        x, y = self.statistics["x"], self.statistics["TARGET_"]
        layers = [
            keras.Input(self.features["x"].shape),
            keras.layers.Normalization(mean=x.mean, variance=x.std**2),
            keras.layers.Dense(self.params.units, activation="relu"),
            keras.layers.Dense(1),
            keras.layers.Rescaling(float(y.std[0]) or 1.0, offset=float(y.mean[0])),
        ]
        self.model = keras.Sequential(layers)
        self.optimizer = keras.optimizers.Adam(self.params.learning_rate)
        self.scale = float(y.std[0]) or 1.0

    def loss(self, batch, *, training):
        errors = (self.model(batch["x"], training=training) - batch["TARGET_"]) / self.scale
        return tf.reduce_mean(tf.square(errors), -1), {}

    def predict(self, inputs):
        return {"TARGET_": self.model(inputs["x"], training=False)}
