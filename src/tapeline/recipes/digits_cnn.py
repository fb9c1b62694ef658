"""Read handwritten digits with a small convolutional network and augmented images.

Images of shape (batch, 8, 8, 1), grey levels 0..16, are shifted by whole pixels and turned by a few degrees. What
is random is drawn in `prepare`, as integers; the arithmetic on pixels is in the step.
"""

import math

import keras
import tensorflow as tf

from tapeline.recipe import RecipeParams, Supervised, field


class DigitsCnn(Supervised):
    inputs = ("image",)
    target = "label"
    modes = {"graph": ("float32", "mixed_bfloat16"), "eager": ("float32",)}

    class Params(RecipeParams):
        learning_rate: float = field(0.002, gt=0)
        dropout: float = field(0.4, ge=0, lt=1)
        shift: int = field(1, ge=0, le=3)  # pixels
        rotation: int = field(12, ge=0, le=45)  # degrees
        decay_steps: int = field(1000, gt=0)

    def build(self):
        layers = [keras.Input((8, 8, 1)), keras.layers.Rescaling(1 / 16)]
        for filters in (32, 64, 64):
            layers += [keras.layers.Conv2D(filters, 3, padding="same", use_bias=False)]
            layers += [keras.layers.BatchNormalization(), keras.layers.ReLU()]
        self.body = keras.Sequential([*layers, keras.layers.MaxPooling2D()])
        top = [keras.layers.Flatten(), keras.layers.Dropout(self.params.dropout)]
        self.head = keras.Sequential([*top, keras.layers.Dense(10, dtype="float32")])
        self.model = keras.Sequential([self.body, self.head])
        rate = keras.optimizers.schedules.CosineDecay(self.params.learning_rate, self.params.decay_steps)
        self.optimizer = keras.optimizers.Adam(rate)

    def prepare(self, batch, context):
        size, (shift, turn) = tf.shape(batch["label"])[0], tf.unstack(tf.random.split(context.seed, 2))
        most, angle = self.params.shift, self.params.rotation
        shifts = tf.random.stateless_uniform([size, 2], shift, -most, most + 1, tf.int32)
        return batch | {"shift": shifts, "turn": tf.random.stateless_uniform([size], turn, -angle, angle + 1, tf.int32)}

    def loss(self, batch, *, training):
        images = augmented(batch) if training else tf.cast(batch["image"], tf.float32)
        logits = self.model(images, training=training)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(batch["label"], logits)
        return losses, {"accuracy": tf.equal(tf.argmax(logits, -1), batch["label"])}

    def predict(self, inputs):
        maps = self.body(tf.cast(inputs["image"], tf.float32), training=False)
        logits = self.head(maps, training=False)
        found = {"class": tf.argmax(logits, -1), "probabilities": tf.nn.softmax(logits), "logits": logits}
        return {**found, "features": tf.reduce_mean(tf.cast(maps, tf.float32), [1, 2])}


def augmented(batch):
    """Return the images turned by `turn` degrees about their centre and moved by `shift` pixels, bilinearly."""
    angle = tf.cast(batch["turn"], tf.float32) * (math.pi / 180)
    cos, sin, zero = tf.cos(angle), tf.sin(angle), tf.zeros_like(angle)
    down, right = tf.unstack(tf.cast(batch["shift"], tf.float32), axis=1)
    x0 = 3.5 - cos * (3.5 + right) + sin * (3.5 + down)
    y0 = 3.5 - sin * (3.5 + right) - cos * (3.5 + down)
    return tf.raw_ops.ImageProjectiveTransformV3(
        images=tf.cast(batch["image"], tf.float32),
        transforms=tf.stack([cos, -sin, x0, sin, cos, y0, zero, zero], axis=1),
        output_shape=[8, 8],
        fill_value=0.0,
        interpolation="BILINEAR",
        fill_mode="CONSTANT",
    )
