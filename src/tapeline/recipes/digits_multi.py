"""Two outputs, one loss: read a digit and draw it again from a short code.

An encoder makes a code of 24 numbers of an image (batch, 8, 8, 1), grey levels 0..16; one head names the digit,
another draws the image. The loss weighs both, a regularization of one's own keeps the code's directions orthogonal
(Brock et al. 2017, https://arxiv.org/abs/1609.07093), and `params.yaml` clips the gradients by their global norm.
"""

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from tapeline.recipe import field
from tapeline.recipes import digits_cnn


class DigitsMulti(digits_cnn.DigitsCnn):
    class Params(digits_cnn.DigitsCnn.Params):
        code: int = field(24, gt=0)
        drawing: float = field(5.0, ge=0)  # weight of the drawing in the loss
        orthogonality: float = field(0.001, ge=0)  # weight of the regularization

    def build(self):
        super().build()
        maps = keras.Input(self.body.output_shape[1:])
        code = layers.Dense(self.params.code, name="code")(layers.Dropout(self.params.dropout)(layers.Flatten()(maps)))
        logits = layers.Dense(10, dtype="float32")(layers.ReLU()(code))
        pixels = layers.Dense(64, "sigmoid", dtype="float32")(layers.Dense(128, "relu")(code))
        self.head = keras.Model(maps, {"logits": logits, "image": layers.Reshape((8, 8, 1), dtype="float32")(pixels)})
        self.model = keras.Sequential([self.body, self.head])

    def loss(self, batch, *, training):
        image = digits_cnn.augmented(batch) if training else tf.cast(batch["image"], tf.float32)
        made = self.model(image, training=training)
        named = tf.nn.sparse_softmax_cross_entropy_with_logits(batch["label"], made["logits"])
        drawn = tf.reduce_mean(tf.square(made["image"] - image / 16), [1, 2, 3])
        right = tf.equal(tf.argmax(made["logits"], -1), batch["label"])
        return named + self.params.drawing * drawn, {"accuracy": right, "drawing_error": drawn}

    def regularization(self):
        kernel = self.head.get_layer("code").kernel
        squares = tf.matmul(kernel, kernel, transpose_a=True) - tf.eye(self.params.code)
        return self.params.orthogonality * tf.reduce_sum(tf.square(squares))

    def predict(self, inputs):
        made = self.model(tf.cast(inputs["image"], tf.float32), training=False)
        probabilities = tf.nn.softmax(made["logits"])
        return {"class": tf.argmax(probabilities, -1), "probabilities": probabilities, "image": made["image"] * 16}

    def evaluate(self, data):
        """How many times smaller the drawing's error is than that of the mean image."""
        images = data["image"].astype(np.float32)
        drawn = self.predict({"image": tf.constant(images)})["image"].numpy()
        return {"drawing_gain": np.square(images - images.mean(0)).mean() / np.square(images - drawn).mean()}

    def pictures(self, data):
        images = data["image"][:20]
        drawn = self.predict({"image": tf.constant(images)})["image"].numpy().round().astype(np.uint8)
        framed = np.pad(np.stack([images, drawn]) * 15, [(0, 0), (0, 0), (1, 1), (1, 1), (0, 0)])
        return {"drawings": framed.transpose(0, 2, 1, 3, 4).reshape(20, -1, 1)}
