"""What differs between two starts is told by its name; what decides no bit makes no difference."""

from pathlib import Path

import datasets
import pytest

from tapeline.config.train import TrainSettings
from tapeline.runtime.errors import NotRepeatable
from tapeline.train.checks.repeatability import Made, Value, check_same

FIRST = (Value("1.0", "the constant of line 7"), Value("2.0", "the constant of line 8"))


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ((FIRST[0], Value("3.0", FIRST[1].what)), "line 8 differs between starts"),
        ((FIRST[0], Value("1.0", FIRST[1].what)), "line 8 differs between starts"),
        ((*FIRST, Value("1.0", "the constant of line 9")), "line 9 differs between starts"),
        (FIRST[:1], "a value differs between starts"),
    ],
)
def test_a_difference_is_named(second, said):
    with pytest.raises(NotRepeatable, match=said):
        check_same(Path("recipe.py"), Made(FIRST).digests, Made(second))


def test_the_same_values_in_any_order_are_no_difference():
    check_same(Path("recipe.py"), Made(FIRST).digests, Made(FIRST[::-1]))
    assert Made(FIRST).digest == Made(FIRST[::-1]).digest


NOISY = """
import keras, tensorflow as tf
from tapeline.recipe import Supervised

class Noisy(Supervised):
    inputs, target = ("x",), "y"

    def build(self):
        self.model = keras.Sequential([keras.Input((2,)), keras.layers.Dropout(0.1), keras.layers.Dense(1)])
        self.optimizer = keras.optimizers.Adam(0.05)

    def prepare(self, batch, context):
        return {**batch, "noise": tf.random.stateless_normal(tf.shape(batch["x"]), context.seed)}

    def loss(self, batch, *, training):
        x = batch["x"] + batch["noise"] if training else batch["x"]
        x = tf.cond(tf.reduce_sum(x) > 0, lambda: x, lambda: tf.map_fn(tf.sin, x))
        return tf.reduce_mean(tf.square(batch["y"] - self.model(x, training=training)), -1), {}

    def predict(self, inputs):
        return {"y": self.model(inputs["x"], training=False)}
"""


@pytest.mark.parametrize(
    ("settings", "others"),
    [
        ({}, [{"data": "stream"}, {"data": "ram", "at_once": 1}, {"in_graph_epochs": 2, "validate_every": 1}]),
        ({"shards": 2}, [{"shards": 2, "data": "stream"}, {"shards": 2, "at_once": 1}, {"shards": 2, "at_once": 2}]),
    ],
)
def test_what_decides_no_bit_decides_no_digest(tmp_path, tf, settings, others):
    from tapeline.dataset.columns import Dataset
    from tapeline.train.assembly import assemble

    data = Dataset.open(datasets.points(tmp_path / "points").folder)
    found = set()
    for number, given in enumerate((settings, *others)):
        path = tmp_path / str(number) / "noisy.py"
        path.parent.mkdir()
        path.write_text("\n" * number + NOISY)
        chosen = TrainSettings.model_validate({"epochs": 4, "batch_size": 8, "data": "ram", **given})
        found.add(assemble(path, {}, chosen, data).made.digest)
    assert len(found) == 1
