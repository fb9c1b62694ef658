"""Tell classes of images apart: three convolutions, mean over the place."""

import keras
import tensorflow as tf

from tapeline.recipe import RecipeParams, Supervised, field


class TITLE_(Supervised):
    inputs, target = ("image",), "label"

    class Params(RecipeParams):
        learning_rate: float = field(0.001, gt=0)

    def build(self):
        layers = [keras.Input(self.features["image"].shape), keras.layers.Rescaling(1 / 255)]
        for filters in (16, 32, 64):
            layers.append(keras.layers.Conv2D(filters, 3, padding="same", activation="relu"))
            layers.append(keras.layers.MaxPooling2D())
        layers += [keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(len(self.features["label"].classes))]
        self.model = keras.Sequential(layers)
        self.optimizer = keras.optimizers.Adam(self.params.learning_rate)

    def loss(self, batch, *, training):
        logits = self.model(tf.cast(batch["image"], tf.float32), training=training)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(batch["label"], logits)
        return losses, {"accuracy": tf.equal(tf.argmax(logits, -1), batch["label"])}

    def predict(self, inputs):
        logits = self.model(tf.cast(inputs["image"], tf.float32), training=False)
        return {"class": tf.argmax(logits, -1), "probabilities": tf.nn.softmax(logits)}
