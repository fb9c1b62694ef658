"""ResNet-18 at a quarter of its width, for images of 32×32 (He et al. 2016, https://arxiv.org/abs/1512.03385).

Eight blocks of two convolutions, each with batch normalization. Strided convolutions pad by one on every side, as in
PyTorch. Images of shape (batch, 32, 32, 3), uint8.
"""

import keras
import tensorflow as tf
from keras import layers

from tapeline.recipe import RecipeParams, Supervised, field

WIDTHS = (16, 32, 64, 128)


def convolved(x, width, stride, name, size=3):
    """Return a normalized convolution of `x`; same height and width for stride 1, half for stride 2."""
    if stride == 2 and size == 3:
        x = layers.ZeroPadding2D(1)(x)
    padding = "same" if stride == 1 else "valid"
    x = layers.Conv2D(width, size, stride, padding=padding, use_bias=False, name=f"{name}_convolution")(x)
    return layers.BatchNormalization(name=f"{name}_norm")(x)


def network(*, scale=None):
    """Return the model: images to logits. scale: factor for the inputs."""
    inputs = keras.Input((32, 32, 3))
    x = inputs if scale is None else layers.Rescaling(scale)(inputs)
    x = layers.ReLU()(convolved(x, WIDTHS[0], 1, "stem"))
    for stage, width in enumerate(WIDTHS):
        for block in range(2):
            name, stride = f"block_{stage}_{block}", 2 if stage and not block else 1
            shortcut = convolved(x, width, stride, f"{name}_shortcut", 1) if stride == 2 else x
            x = layers.ReLU()(convolved(x, width, stride, f"{name}_first"))
            x = layers.ReLU()(layers.add([convolved(x, width, 1, f"{name}_second"), shortcut]))
    outputs = layers.Dense(10, dtype="float32", name="logits")(layers.GlobalAveragePooling2D()(x))
    return keras.Model(inputs, outputs)


class ResNet(Supervised):
    inputs, target = ("image",), "label"
    modes = {"graph": ("float32", "mixed_bfloat16"), "eager": ("float32",)}

    class Params(RecipeParams):
        learning_rate: float = field(0.02, gt=0)
        momentum: float = field(0.9, ge=0, lt=1)

    def build(self):
        self.model = network()
        self.optimizer = keras.optimizers.SGD(self.params.learning_rate, self.params.momentum)

    def loss(self, batch, *, training):
        logits = self.model(tf.cast(batch["image"], tf.float32) / 255.0, training=training)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(batch["label"], logits)
        return losses, {"accuracy": tf.equal(tf.argmax(logits, -1), batch["label"])}
