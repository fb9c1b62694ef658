"""Seeds: each of the recipe's generators, `prepare` and the step draw numbers of their own, a function of the step."""

import datasets
import numpy as np
import pytest
import recipes

from tapeline.config.train import TrainSettings

DROPOUTS = """
import keras, tensorflow as tf
from tapeline.recipe import RecipeParams, Supervised

class Dropouts(Supervised):
    inputs, target = ("x",), "y"

    class Params(RecipeParams):
        pass

    def build(self):
        self.drops = [keras.layers.Dropout(0.5) for _ in range(3)]
        self.model = keras.Sequential([keras.Input((2,)), *self.drops, keras.layers.Dense(1)])
        self.optimizer = keras.optimizers.SGD(0.01)
        self.drawn = tf.Variable(tf.zeros([2, 64]), trainable=False)
        self.seeds = tf.Variable(tf.zeros([2, 2], tf.int64), trainable=False)

    def prepare(self, batch, context):
        return {**batch, "seed": context.seed}

    def train_step(self, batch, context):
        for row, drop in enumerate(self.drops[:2]):
            self.drawn[row].assign(drop(tf.ones([64]), training=True))
        self.seeds.assign(tf.cast(tf.stack([batch["seed"], context.seed]), tf.int64))
        return super().train_step(batch, context)

    def loss(self, batch, *, training):
        return tf.reduce_mean(tf.square(batch["y"] - self.model(batch["x"], training=training)), -1), {}

    def predict(self, inputs):
        return {"y": self.model(inputs["x"], training=False)}
"""


@pytest.fixture(scope="module", params=["ram", "stream"])
def step(tf, tmp_path_factory, request):
    """Return a function that runs one step and returns its recipe and its states of seeds."""
    from tapeline.recipe import variables
    from tapeline.train.run import assemble

    folder = tmp_path_factory.mktemp("seeds")
    recipe, data = recipes.write(folder, DROPOUTS), datasets.points(folder / "points", examples=64)
    parts = assemble(recipe, {}, TrainSettings(epochs=5, batch_size=8, data=request.param), data)
    found = variables.find(parts.recipe).seeds

    def call(number):
        chunk = next(iter(parts.feed.chunks(number, number + 1)))
        parts.loop(chunk, number, number + 1, tf.zeros([1, 2], tf.float64))
        return parts.recipe, {name: tuple(state.numpy()) for name, state in found.items()}

    return call


def test_no_two_generators_have_one_seed(step):
    recipe, states = step(0)
    assert len(states) == 3 and len(set(states.values())) == 3
    first, second = recipe.drawn.numpy()
    assert not np.array_equal(first, second)


def test_prepare_and_the_step_have_seeds_of_their_own(step):
    for number in (0, 7):
        recipe, states = step(number)
        seeds = {tuple(seed) for seed in recipe.seeds.numpy()}
        assert len(seeds) == 2 and not seeds & set(states.values())


def test_seeds_are_a_function_of_the_step(step):
    seen = []
    for number in (3, 4, 3):
        recipe, states = step(number)
        seen.append((states, recipe.seeds.numpy().tolist()))
    assert seen[0] == seen[2]
    assert set(seen[0][0].values()).isdisjoint(seen[1][0].values())
    assert all(one != other for one, other in zip(seen[0][1], seen[1][1], strict=True))
