"""A generator says in one line what it takes: its signature and what its answers are recorded on follow."""

import datasets
import numpy as np
import pytest
import recipes
from chains import Chain
from trainings import Run

from tapeline.runtime.errors import InputError

GENERATOR = '''"""Points made from noise and a wish."""
import keras, tensorflow as tf
from tapeline.recipe import Noise, Supervised

class Generator(Supervised):
    def build(self):
        self.inputs = {"wish": Noise(1), "y": self.features["y"], "noise": Noise(4, 3)}
        parts = [keras.Input((4, 3)), keras.Input((1,)), keras.Input((1,))]
        flat = keras.layers.Concatenate()([keras.layers.Flatten()(parts[0]), *parts[1:]])
        self.model = keras.Model(parts, keras.layers.Dense(2)(flat))
        self.optimizer = keras.optimizers.SGD(0.01)

    def prepare(self, batch, context):
        size, (one, other) = tf.shape(batch["y"])[0], context.seeds(2)
        noise = tf.random.stateless_normal([size, 4, 3], one)
        return {**batch, "noise": noise, "wish": tf.random.stateless_normal([size, 1], other)}

    def loss(self, batch, *, training):
        return tf.reduce_mean(tf.square(batch["x"] - self.made(batch)), -1), {}

    def eval_step(self, batch, context):
        return super().eval_step(self.prepare(batch, context), context)

    def predict(self, inputs):
        return {"x": self.made(inputs)}

    def made(self, inputs):
        return self.model([inputs["noise"], inputs["wish"], inputs["y"]])
'''


@pytest.fixture
def chain(tmp_path, tf):
    def make(*edits):
        recipe = recipes.write(tmp_path, GENERATOR, *edits)
        return Chain(Run(tmp_path / "run", recipe, datasets.points(tmp_path / "points").folder, epochs=1, batch_size=8))

    return make


@pytest.mark.slow
def test_the_signature_and_the_recorded_answers_follow(chain, tf):
    made = chain()
    made.run()
    made.validate()
    taken = made.export()["signatures"]["serving_default"]["inputs"]
    assert taken == {
        "wish": {"dtype": "float32", "shape": [None, 1]},
        "y": {"dtype": "float32", "shape": [None, 1]},
        "noise": {"dtype": "float32", "shape": [None, 4, 3]},
    }
    wish = tf.random.stateless_normal([9, 1], [0, 0])
    noise = tf.random.stateless_normal([9, 4, 3], [0, 1])
    serve = tf.saved_model.load(str(made.model / "saved_model")).signatures["serving_default"]
    answers = serve(wish=wish, noise=noise, y=tf.constant(np.load(made.run.dataset / "test" / "y.npy")))
    assert np.allclose(answers["x"], np.load(made.validated / "predictions.npz")["x"], atol=1e-6)
    assert not np.allclose(serve(wish=-wish, noise=noise, y=tf.zeros([9, 1]))["x"], answers["x"])


@pytest.mark.slow
def test_an_input_of_another_kind_says_what_it_is_given(chain, tf):
    other = "self.inputs = {'wish': tf.TensorSpec([1]), 'y': self.features['y'], 'noise': tf.TensorSpec([4, 3])}"
    served = "    def served(self, data):\n        return {'wish': W, 'noise': N, 'y': data['y']}\n\n    def predict"
    served = served.replace("W", "tf.ones([9, 1]).numpy()").replace("N", "tf.ones([9, 4, 3]).numpy()")
    declared = 'self.inputs = {"wish": Noise(1), "y": self.features["y"], "noise": Noise(4, 3)}'
    with pytest.raises(InputError, match="^Generator.inputs names 'wish': the features of points are x, y"):
        chain((declared, other)).run()
    made = chain((declared, other), ("    def predict", served))
    made.run()
    made.validate()
    assert made.export()["signatures"]["serving_default"]["inputs"]["noise"]["shape"] == [None, 4, 3]


def test_a_name_that_is_neither_is_refused_before_the_first_step(chain, tf):
    wrong = chain(('"y": self.features["y"],', '"z": self.features["y"],'))
    with pytest.raises(InputError, match="^Generator.inputs names 'z': the features of points are x, y$"):
        wrong.run()
    assert not wrong.run.out.exists()
