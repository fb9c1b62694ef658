"""One update in shards equals the large batch's, for any recipe and mode."""

import datasets
import numpy as np
import pipelines
import pytest
import recipes
from sharding import KEEPING, MODES, NO_DROPOUT, NORMALIZED, PENALTY, STEEP, TABLE, Trained


@pytest.mark.parametrize("mode", MODES)
def test_batch_normalization_of_rows_is_the_large_batchs(blobs, mode):
    large = blobs(STEEP, NO_DROPOUT, compile=mode, steps=2)
    for shards in (2, 4):
        assert blobs(STEEP, NO_DROPOUT, compile=mode, steps=2, shards=shards).agrees(large)


@pytest.mark.slow
def test_three_shards_and_all_that_goes_along(blobs):
    settings = {"batch_size": 12, "ema": 0.9, "gradients": {"optimizer": {"clip_global_norm": 0.5, "noise": 0.001}}}
    large = blobs(STEEP, NO_DROPOUT, **settings)
    assert blobs(STEEP, NO_DROPOUT, **settings, shards=3).agrees(large), "noise is drawn once, for the batch"
    large = blobs(NO_DROPOUT, ("Adam(rate)", "SGD(rate, momentum=0.9)"), fused=True)
    assert blobs(NO_DROPOUT, ("Adam(rate)", "SGD(rate, momentum=0.9)"), fused=True, shards=4).agrees(large)


NETWORK = '''
"""Two convolutions and their normalizations, one of which a mask hides a part from, and an added loss between them."""
import keras, tensorflow as tf
from tapeline.recipe import Supervised

class Added(keras.layers.Layer):
    def call(self, x):
        self.add_loss(tf.reduce_mean(tf.square(x)))
        return x

class Network(Supervised):
    inputs, target = ("image",), "label"

    def build(self):
        inputs = keras.Input((8, 8, 1))
        x = keras.layers.Rescaling(1 / 16)(inputs)
        for filters in (4, 8):
            x = keras.layers.Conv2D(filters, 3, padding="same", use_bias=False)(Added()(x))
            x = keras.layers.ReLU()(keras.layers.BatchNormalization()(x))
        self.model = keras.Model(inputs, keras.layers.Dense(3)(keras.layers.GlobalAveragePooling2D()(x)))
        self.masked = keras.layers.BatchNormalization()
        self.masked.build((None, 8, 8))
        self.optimizer = keras.optimizers.SGD(0.1)

    @property
    def variables(self):
        return [*self.model.trainable_variables, *self.masked.trainable_variables]

    def loss(self, batch, *, training):
        self.kept = tf.cast(batch["image"], tf.float32)  # a tensor in an attribute, used after others have run
        logits = self.model(self.kept, training=training)
        rows = self.kept[..., 0]
        seen = self.masked(rows, training=training, mask=rows[..., 0] > 4)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(batch["label"], logits)
        return losses + tf.reduce_mean(tf.square(seen - 0.3), [1, 2]) * self.kept[:, 0, 0, 0], {}

    def predict(self, inputs):
        return {"class": tf.argmax(self.model(tf.cast(inputs["image"], tf.float32), training=False), -1)}
'''


@pytest.mark.parametrize("mode", MODES)
def test_batch_normalization_of_images_and_what_python_keeps_between_meetings(blobs, mode):
    large = blobs(source=NETWORK, compile=mode, steps=2)
    assert blobs(source=NETWORK, compile=mode, steps=2, shards=4).agrees(large)


@pytest.mark.parametrize("mode", MODES)
def test_gradients_that_are_rows_of_a_table(blobs, mode):
    large = blobs(source=TABLE, compile=mode)
    assert blobs(source=TABLE, compile=mode, shards=4).agrees(large)


@pytest.mark.parametrize("mode", MODES)
def test_a_gradient_of_the_batchs_gradient(blobs, mode):
    large = blobs(*PENALTY, source=TABLE, compile=mode)
    assert blobs(*PENALTY, source=TABLE, compile=mode, shards=4).agrees(large)


@pytest.mark.parametrize("mode", MODES)
def test_a_gradient_of_a_gradient_through_batch_normalization(blobs, mode):
    large = blobs(*PENALTY, NORMALIZED, source=TABLE, compile=mode)
    assert blobs(*PENALTY, NORMALIZED, source=TABLE, compile=mode, shards=4).agrees(large)


@pytest.mark.parametrize("mode", MODES)
def test_what_python_keeps_at_any_depth_is_each_shards_own(blobs, mode):
    large = blobs(source=KEEPING, compile=mode)
    assert blobs(source=KEEPING, compile=mode, shards=4).agrees(large)


PAIRS = '''
"""A `tf.Module` that keeps its weights in a list of pairs, which TensorFlow wraps."""
import keras, tensorflow as tf
from tapeline.recipe import Supervised

class Network(tf.Module):
    def __init__(self):
        self.layers = []
        for seed, size in enumerate([(64, 8), (8, 3)]):
            kernel = tf.random.stateless_normal(size, [seed, 7], stddev=0.1)
            self.layers.append((tf.Variable(kernel), tf.Variable(tf.zeros(size[1]))))

    def __call__(self, x):
        for kernel, bias in self.layers:
            self.last = x = tf.nn.elu(x) @ kernel + bias
        return x

class Pairs(Supervised):
    inputs, target = ("image",), "label"

    def build(self):
        self.model = Network()
        self.optimizer = keras.optimizers.SGD(0.1)

    def loss(self, batch, *, training):
        self.model(tf.reshape(tf.cast(batch["image"], tf.float32) / 16, [-1, 64]))
        return tf.nn.sparse_softmax_cross_entropy_with_logits(batch["label"], self.model.last), {}

    def predict(self, inputs):
        return {"class": tf.argmax(self.model(tf.reshape(tf.cast(inputs["image"], tf.float32), [-1, 64])), -1)}
'''


@pytest.mark.parametrize("mode", MODES)
def test_a_module_with_tuples_of_variables_in_a_list(blobs, mode):
    large = blobs(source=PAIRS, compile=mode)
    assert blobs(source=PAIRS, compile=mode, shards=4).agrees(large)


OWN = {"digits-gan": {}, "digits-sam": {"dropout": 0.0}, "addition-seq2seq": {}, "linear-regression": {}}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "name",
    [
        "digits-gan",
        "linear-regression",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("digits-sam", "addition-seq2seq")),
    ],
)
def test_the_librarys_recipes_take_the_step_of_the_large_batch(tmp_path, tf, name, mode):
    from tapeline.recipe import loading

    folder, entry = pipelines.PIPELINES[name]
    data = pipelines.stand_in(entry["dataset"], tmp_path / "data", 16)
    params = {**pipelines.without_models(entry["params"]), **OWN[name]}
    recipe = folder / entry["recipe"]
    if mode not in loading.load(recipe).modes:
        pytest.skip(f"{name} has no mode {mode}")
    large = Trained(tf, recipe, data, params, compile=mode)
    assert Trained(tf, recipe, data, params, compile=mode, shards=4).agrees(large)


STORED = '''
"""MAML on waves that are stored."""
from tapeline.recipes import sinusoid_maml

class Stored(sinusoid_maml.SinusoidMaml):
    def prepare(self, batch, context):
        return batch
'''


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_maml_on_stored_tasks_takes_the_step_of_the_large_batch(tmp_path, tf, mode):
    columns = pipelines.waves(np.random.default_rng(0), 33)
    data = datasets.write(tmp_path / "waves", {"train": columns, "val": columns}).folder
    recipe = recipes.write(tmp_path, STORED)
    large = Trained(tf, recipe, data, compile=mode)
    assert Trained(tf, recipe, data, compile=mode, shards=4).agrees(large)


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("name", "mode"), [("sinusoid-maml", "graph"), ("sinusoid-maml", "eager"), ("cartpole-reinforce", "graph")]
)
def test_recipes_that_draw_their_data_draw_it_for_each_shard(tmp_path, tf, name, mode):
    folder, entry = pipelines.PIPELINES[name]
    data = pipelines.stand_in(entry["dataset"], tmp_path / "data", 4)
    settings = {"batch_size": 4, "steps_per_epoch": 2, "compile": mode}
    trained = Trained(tf, folder / entry["recipe"], data, entry["params"], shards=2, **settings)
    assert trained.moved > 1e-5
    from tapeline.train.data.feed import INDEX

    (chunk,) = trained.parts.feed.chunks(0, 1)
    made = {name: value for name, value in chunk.rows.items() if name != INDEX}
    assert made
    for value in made.values():
        first, second = value[0].numpy()
        assert not np.array_equal(first, second), "each shard has a seed of its own"


@pytest.mark.slow
def test_how_many_are_computed_at_once_changes_no_bit(blobs):
    """Here an operation has several threads, whose number does not change either."""
    states = [blobs(steps=6, shards=4, at_once=at_once).state for at_once in (1, 2, 4)]
    for name, value in states[0].items():
        assert all(value.tobytes() == other[name].tobytes() for other in states[1:]), name


def test_with_one_at_once_each_waits_for_the_one_before(blobs):
    """The gradients of a shard depend on those of the one before, and so its memory is free by then."""

    def waits(at_once):
        graph = blobs(NO_DROPOUT, shards=2, at_once=at_once).parts.loop._step.traced.graph
        operations = graph.get_operations()
        gradients = {one.name for one in operations if "shard_0/" in one.name and "grad" in one.name.lower()}
        begun = [one for one in operations if one.name.startswith("shard_1/")]
        before = [control for one in begun for control in one.control_inputs]
        ends = [*before, *(end for control in before for end in control.control_inputs)]  # one operation waits for all
        return any(end.name in gradients for end in ends)

    assert waits(1) and not waits(2)
