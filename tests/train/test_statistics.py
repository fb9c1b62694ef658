"""A recipe's constants from the train split's statistics: the same in training, after a cut, and in what is exported."""

import datasets
import numpy as np
import pytest
import recipes
from chains import Chain
from trainings import Crash, Lengths, Run, crash_after

from tapeline.runtime.errors import InputError

STANDARD = '''"""Inputs of unlike units, standardized; the rarer class weighs more."""
import keras, numpy as np, tensorflow as tf
from tapeline.recipe import Supervised

class Standard(Supervised):
    inputs, target = ("x",), "label"

    def build(self):
        x, counts = self.statistics["x"], self.statistics["label"].counts
        self.weights = np.float32([sum(counts.values()) / max(count, 1) for count in counts.values()])
        self.normalize = keras.layers.Normalization(mean=x.mean, variance=x.std**2)
        self.model = keras.Sequential([keras.Input((2,)), self.normalize, keras.layers.Dense(len(counts))])
        self.optimizer = keras.optimizers.SGD(0.05)

    def loss(self, batch, *, training):
        logits = self.model(batch["x"], training=training)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(batch["label"], logits)
        return losses * tf.gather(self.weights, batch["label"]), {}

    def predict(self, inputs):
        logits = self.model(inputs["x"], training=False)
        found = {"class": tf.argmax(logits, -1), "probabilities": tf.nn.softmax(logits)}
        x, at = self.statistics["x"], tf.cast(inputs["x"], tf.float64)
        return {**found, "normalized": self.normalize(inputs["x"]), "scaled": (at - x.min) / (x.max - x.min),
                "weight": tf.gather(self.weights, found["class"])}
'''


def houses(folder, seed=0):
    """Write rooms and areas, a hundred times as large, of flats and fewer houses."""
    random = np.random.default_rng(seed)

    def split(count):
        label = (random.random(count) < 0.2).astype(np.int64)
        x = np.stack([3 + 2 * label + random.normal(size=count), 80 + 300 * label + 50 * random.normal(size=count)], 1)
        return {"x": x.astype(np.float32), "label": label}

    splits = {"train": split(90), "val": split(20), "test": split(30)}
    return datasets.write(folder, splits, {"label": ["flat", "house"]}).folder


LONG = [pytest.param(mode, marks=pytest.mark.long) for mode in ("xla", "eager")]


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["graph", *LONG])
def test_a_cut_run_has_the_same_bits_and_the_export_the_same_constants(tmp_path, tf, mode):
    data, recipe = houses(tmp_path / "houses"), recipes.write(tmp_path, STANDARD)
    settings = {"epochs": 3, "batch_size": 8, "compile": mode}
    whole = Run(tmp_path / "whole", recipe, data, **settings)(pace=Lengths(50))
    cut = Run(tmp_path / "cut", recipe, data, **settings, checkpoint={"every_steps": 5})
    with pytest.raises(Crash):
        cut(hooks=[crash_after(5)], pace=Lengths(2, 3, 1))
    cut(pace=Lengths(3))
    assert cut.notes[0].startswith("resuming from step ")
    weights = {name: value for name, value in whole.outs().items() if name != "run.json"}
    assert weights == {name: value for name, value in cut.outs().items() if name != "run.json"}

    chain = Chain(whole)
    chain.validate()
    chain.export()
    train, test = (np.load(data / split / "x.npy").astype(float) for split in ("train", "test"))
    label = np.load(data / "train" / "label.npy")
    serve = tf.saved_model.load(str(chain.model / "saved_model")).signatures["serving_default"]
    answers = serve(x=tf.constant(test, tf.float32))
    assert np.allclose(answers["normalized"], (test - train.mean(0)) / train.std(0), atol=1e-5)
    assert np.allclose(answers["scaled"], (test - train.min(0)) / (train.max(0) - train.min(0)), rtol=1e-12)
    expected = np.float32(len(label) / np.bincount(label))
    assert np.array_equal(answers["weight"], expected[answers["class"]])


def test_other_training_data_are_another_run(tmp_path, tf):
    recipe = recipes.write(tmp_path, STANDARD)
    run = Run(tmp_path, recipe, houses(tmp_path / "houses"), epochs=2, batch_size=8, checkpoint={"every_steps": 5})
    with pytest.raises(Crash):
        run(hooks=[crash_after(5)], pace=Lengths(5))
    houses(tmp_path / "houses", seed=1)
    run()
    assert run.notes[0] == "starting at step 0: the existing checkpoint is of another run, which differs in data"


def test_weights_of_other_classes_are_taken_by_name(tmp_path, tf):
    """Which of a recipe's weights follow the classes is found by a class that no example has."""
    data = houses(tmp_path / "houses")
    first = Run(tmp_path / "first", recipes.write(tmp_path, STANDARD), data, epochs=1, batch_size=8)()
    second = Run(tmp_path / "second", first.recipe, data, epochs=1, batch_size=8, init_from="x")
    second.weights, second.weights_classes = first.out / "weights", {"label": ("house", "flat")}
    second()
    assert not any("left as initialized" in note for note in second.notes), second.notes


def test_what_is_not_there_is_refused_before_the_first_step(tmp_path, tf):
    data = houses(tmp_path / "houses")
    for old, new, said in (
        ('x, counts = self.statistics["x"]', 'x, counts = self.statistics["y"]', "has no feature 'y': it has label, x"),
        ('self.statistics["label"].counts', 'self.statistics["x"].counts', "x is not a label"),
    ):
        run = Run(
            tmp_path / "run", recipes.write(tmp_path / "wrong", STANDARD, (old, new)), data, epochs=1, batch_size=8
        )
        with pytest.raises(InputError, match=said) as refusal:
            run()
        assert "\n" not in str(refusal.value) and not run.out.exists()
