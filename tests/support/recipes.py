"""Recipes for tests, written to files like a user's own."""

from pathlib import Path

LINE = '''"""A line."""
import keras, tensorflow as tf
from tapeline.recipe import RecipeParams, Supervised, field

class Line(Supervised):
    inputs, target = ("x",), "y"

    class Params(RecipeParams):
        learning_rate: float = field(0.1, gt=0)

    def build(self):
        self.model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        self.optimizer = keras.optimizers.SGD(self.params.learning_rate)

    def loss(self, batch, *, training):
        return tf.reduce_mean(tf.square(batch["y"] - self.model(batch["x"], training=training)), -1), {}

    def predict(self, inputs):
        return {"y": self.model(inputs["x"], training=False)}
'''

EVERYTHING = '''"""Dropout, BatchNorm, augmentation, a cyclic rate and Adam at once, on blobs."""
import keras, tensorflow as tf
from tapeline.recipe import RecipeParams, Supervised

class Everything(Supervised):
    inputs, target = ("image",), "label"

    class Params(RecipeParams):
        poison: int = -1  # a step whose loss is NaN

    def build(self):
        self.model = keras.Sequential([
            keras.Input((8, 8, 1)), keras.layers.Rescaling(1 / 16), keras.layers.Flatten(),
            keras.layers.Dense(16, use_bias=False), keras.layers.BatchNormalization(), keras.layers.ReLU(),
            keras.layers.Dropout(0.3), keras.layers.Dense(3, dtype="float32")])
        rate = keras.optimizers.schedules.CosineDecayRestarts(0.01, 7)
        self.optimizer = keras.optimizers.Adam(rate)

    def prepare(self, batch, context):
        flips = tf.random.stateless_uniform(tf.shape(batch["label"]), context.seed, 0, 2, tf.int32)
        return {**batch, "flip": flips}

    def loss(self, batch, *, training):
        image = tf.cast(batch["image"], tf.float32)
        if training:
            image = tf.where(tf.equal(batch["flip"], 1)[:, None, None, None], image[:, :, ::-1], image)
        logits = self.model(image, training=training)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(batch["label"], logits)
        return losses, {"accuracy": tf.equal(tf.argmax(logits, -1), batch["label"])}

    def train_step(self, batch, context):
        metrics = dict(super().train_step(batch, context))
        poisoned = tf.equal(context.step, self.params.poison)
        self.model.layers[3].moving_mean.assign_add(tf.where(poisoned, float("nan"), 0.0) * tf.ones([16]))
        return metrics

    def predict(self, inputs):
        logits = self.model(tf.cast(inputs["image"], tf.float32), training=False)
        return {"class": tf.argmax(logits, -1), "probabilities": tf.nn.softmax(logits)}
'''


def write(folder: Path, source: str = LINE, *edits: tuple[str, str]) -> Path:
    """Write a recipe, with parts of its source replaced, and return its file."""
    for old, new in edits:
        assert old in source, old
        source = source.replace(old, new)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "recipe.py"
    path.write_text(source, encoding="utf-8")
    return path
