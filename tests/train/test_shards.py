"""Shards of a batch: one update equals the large batch's, for any recipe and mode; what cannot meet is refused."""

import threading

import datasets
import numpy as np
import pipelines
import pytest
import recipes
from trainings import Run

from tapeline.config.train import TrainSettings
from tapeline.dataset.columns import Dataset
from tapeline.runtime.errors import InputError

STEEP = ("keras.optimizers.Adam(rate)", "keras.optimizers.SGD(0.1, momentum=0.9)")
NO_DROPOUT = ("keras.layers.Dropout(0.3),", "")
MODES = ["graph", *(pytest.param(mode, marks=pytest.mark.slow) for mode in ("eager", "xla"))]


class Trained:
    """The state after a few steps in this process, whatever threads TensorFlow has here."""

    def __init__(self, tf, recipe, data, params=None, *, steps=1, **settings):
        from tapeline.recipe import variables
        from tapeline.train.assembly import assemble

        def gentle(recipe):  # Adam divides by a gradient's size, and so enlarges rounding without bound
            import keras

            for name, optimizer in recipe.optimizers().items():
                if type(optimizer) is keras.optimizers.Adam and not settings.get("fused"):
                    setattr(recipe, name, keras.optimizers.SGD(0.05))

        given = {"epochs": 1, "batch_size": 16, **settings}
        self.parts = assemble(
            recipe, params or {}, TrainSettings.model_validate(given), Dataset.open(data), adapt=gentle
        )
        before = {n: v.numpy() for n, v in variables.find(self.parts.recipe).weights.items()}
        self.metrics = tf.zeros([len(self.parts.loop.names), 2], tf.float64)
        for chunk in self.parts.feed.chunks(0, steps):
            _, table, _ = self.parts.loop(chunk, chunk.first, chunk.end, self.metrics)
        self.metrics = dict(zip(self.parts.loop.names, table.numpy()[0], strict=True))
        found = variables.find(self.parts.recipe)
        self.state = {name: value.numpy() for name, value in {**found.weights, **found.optimizers}.items()}
        self.moved = max(np.abs(self.state[name] - value).max() for name, value in before.items())

    def agrees(self, large, within=1e-6):
        """Compare all state and metrics with those of the large batch, to float32 rounding."""
        assert large.moved > 1e-4, "the step does something"
        assert self.state.keys() == large.state.keys()
        for name, value in large.state.items():
            assert np.abs(self.state[name] - value).max() <= within * max(1.0, np.abs(value).max()), name
        for name, pair in large.metrics.items():
            assert self.metrics[name] == pytest.approx(pair, rel=1e-5), name
        return True


@pytest.fixture
def blobs(tmp_path, tf):
    data = datasets.blobs(tmp_path / "blobs").folder

    def make(*edits, source=recipes.EVERYTHING, steps=1, **settings):
        recipe = recipes.write(tmp_path / "r", source, *edits)
        return Trained(tf, recipe, data, steps=steps, **settings)

    return make


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


TABLE = '''
"""An embedding, whose gradients are rows; the second network penalizes its own gradient."""
import keras, tensorflow as tf
from tapeline.recipe import Supervised

class Table(Supervised):
    inputs, target = ("image",), "label"

    def build(self):
        layers = [keras.Input((64,)), keras.layers.Embedding(17, 3), keras.layers.Flatten(), keras.layers.Dense(3)]
        self.model = keras.Sequential(layers)
        self.optimizer = keras.optimizers.SGD(0.1)

    def loss(self, batch, *, training):
        logits = self.model(tf.reshape(batch["image"], [-1, 64]), training=training)
        return tf.nn.sparse_softmax_cross_entropy_with_logits(batch["label"], logits), {}

    def predict(self, inputs):
        return {"class": tf.argmax(self.model(tf.reshape(inputs["image"], [-1, 64])), -1)}
'''
PENALTY = (
    ("keras.layers.Embedding(17, 3), keras.layers.Flatten(), ", 'keras.layers.Dense(4, "tanh"), '),
    ('tf.reshape(batch["image"], [-1, 64])', 'tf.reshape(tf.cast(batch["image"], tf.float32) / 16, [-1, 64])'),
    ('tf.reshape(inputs["image"], [-1, 64])', 'tf.reshape(tf.cast(inputs["image"], tf.float32) / 16, [-1, 64])'),
    (
        "    def predict",
        "    def train_step(self, batch, context):\n"
        "        with tf.GradientTape() as tape:\n"
        "            gradients, metrics = self.gradients(batch)\n"
        "            penalty = tf.add_n([tf.reduce_sum(tf.square(one)) for one in gradients])\n"
        "        self.update(self.optimizer, self.variables, tape.gradient(penalty, self.variables))\n"
        "        return metrics\n\n    def predict",
    ),
)


@pytest.mark.parametrize("mode", MODES)
def test_gradients_that_are_rows_of_a_table(blobs, mode):
    large = blobs(source=TABLE, compile=mode)
    assert blobs(source=TABLE, compile=mode, shards=4).agrees(large)


@pytest.mark.parametrize("mode", MODES)
def test_a_gradient_of_the_batchs_gradient(blobs, mode):
    large = blobs(*PENALTY, source=TABLE, compile=mode)
    assert blobs(*PENALTY, source=TABLE, compile=mode, shards=4).agrees(large)


NORMALIZED = ('keras.layers.Dense(4, "tanh"), ', 'keras.layers.Dense(4, "tanh"), keras.layers.BatchNormalization(), ')


@pytest.mark.parametrize("mode", MODES)
def test_a_gradient_of_a_gradient_through_batch_normalization(blobs, mode):
    large = blobs(*PENALTY, NORMALIZED, source=TABLE, compile=mode)
    assert blobs(*PENALTY, NORMALIZED, source=TABLE, compile=mode, shards=4).agrees(large)


def test_a_gradient_of_rows_cannot_be_differentiated_again(blobs):
    with pytest.raises(InputError, match=r"self.gradients of rows of a table, which cannot be differentiated again"):
        blobs(PENALTY[3], ("tf.square(one)", "tf.square(tf.convert_to_tensor(one))"), source=TABLE, shards=4)


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


DRAWS = [
    "keras.random.uniform([4], seed=generator)",
    "keras.random.dropout(tf.ones([4, 100]), 0.5, seed=generator)",
    "tf.image.random_brightness(tf.zeros([2, 2, 3]), 0.5)",
    "tf.random.stateless_uniform([4], context.seed)",
    "tf.while_loop(lambda n, x: n < 3, lambda n, x: (n + 1, x + keras.random.uniform([4], seed=generator)),"
    " (0, tf.zeros([4])))[1]",
]


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("eager", [False, True])
def test_each_shard_draws_numbers_of_its_own(tf, draw, eager):
    import keras

    from tapeline.recipe import Context
    from tapeline.train.engine.sharded import Sharded

    class Holder:
        pass

    holder = Holder()
    holder.generator = generator = keras.random.SeedGenerator(1)

    def drawn(count):
        sharded = Sharded(holder, count, at_once=None)

        def both():
            found = []

            def step(part, context):
                place = {"tf": tf, "keras": keras, "context": context, "generator": generator}
                found.append([eval(draw, place) for _ in range(2)])
                return {"loss": tf.zeros([1])}

            sharded(step, lambda number: {}, Context(tf.constant(5, tf.int64), tf.constant([7, 0])), [])
            return found

        run = both if eager else tf.function(both, autograph=False)
        return [[one.numpy().tobytes() for one in shard] for shard in run()]

    two, three = drawn(2), drawn(3)
    assert two == three[:2], "a shard's draws are those of its number"
    seeded = "context.seed" in draw
    assert len({one for shard in three for one in shard}) == (3 if seeded else 6)


@pytest.mark.parametrize("mode", ["graph", "eager"])
def test_what_does_not_depend_on_examples_is_written_once(blobs, mode):
    counting = ("        metrics = dict(", "        self.count.assign_add(1)\n        metrics = dict(")
    made = ("        rate = keras", "        self.count = tf.Variable(0)\n        rate = keras")
    trained = blobs(counting, made, compile=mode, shards=4, steps=3)
    assert trained.state["count"] == 3


STEP = "        metrics = dict(super().train_step(batch, context))\n"
SEEN = ("        rate = keras", "        self.seen = tf.Variable(tf.zeros([4]), name='seen')\n        rate = keras")
MORE = ("        rate = keras", "        self.more = tf.Variable(tf.zeros([4]), name='more')\n        rate = keras")
ONES = "self.seen.assign(tf.ones([4])) + 0"
SET = "self.seen.assign("
SETS = f"            {SET}tf.ones([4]))\n"
INNER = f"tf.cond(context.step > 2, lambda: {ONES}, lambda: tf.zeros([4]))"
COUNTS = [
    "tf.cast(tf.shape(batch['label'])[0], tf.float32)",
    "(1 / batch['image'].shape[0])",
    "len(batch['label'])",
    "self.batch_size",
    "tf.reduce_sum(tf.ones([self.batch_size]))",
    "tf.while_loop(lambda n: n < self.batch_size, lambda n: [n + 1.0], [0.0])[0]",
]
SUM = "tf.reduce_sum(tf.cast(batch['image'], tf.float32))"
RATE = (
    "        rate, more = tf.constant(0.0), metrics['loss']\n"
    "        if context.step > 0:\n"
    "            more = more * 2\n"
)
LOOPED = (
    "        rate, more = tf.constant(0.0), metrics['loss']\n"
    "        for k in tf.range(3.0):\n"
    "            rate, more = rate + k, more + k\n"
)
RATED = "        metrics['more'] = more\n        self.seen.assign(self.seen * 0.9 + rate)\n"


OWN_OPTIMIZER = (
    "        with tf.GradientTape() as tape:\n"
    "            losses, _ = self.loss(batch, training=True)\n"
    "            mean = tf.reduce_mean(losses)\n"
    "        gradients = tape.gradient(mean, self.variables)\n"
    "        self.optimizer.apply(gradients, self.variables)\n"
    "        metrics = {'loss': losses}\n"
)


@pytest.mark.first(14)
@pytest.mark.parametrize(
    ("edits", "said"),
    [
        (
            [SEEN, (STEP, f"{STEP}        self.seen.assign_add(tf.ones([4]) * {SUM})\n")],
            "train_step changes seen by a value that depends on its examples",
        ),
        (
            [SEEN, (STEP, f"{STEP}        self.seen.assign(tf.random.stateless_uniform([4], context.seed))\n")],
            "train_step changes seen by a value that depends on its examples",
        ),
        (
            [SEEN, (STEP, f"{STEP}        for _ in tf.range(2):\n            self.seen.assign_add(tf.ones([4]))\n")],
            "the change of seen is inside a loop, a tf.switch_case or a tf.function of the step's own",
        ),
        (
            [SEEN, (STEP, f"{STEP}        tf.switch_case(tf.cast(context.step, tf.int32), [lambda: {ONES}] * 2)\n")],
            "the change of seen is inside a loop, a tf.switch_case or a tf.function of the step's own",
        ),
        (
            [
                SEEN,
                (
                    STEP,
                    f"{STEP}        one = tf.ones([4]) * {SUM}\n        if context.step > 5:\n            {SET}one)\n",
                ),
            ],
            "train_step changes seen by a value that depends on its examples",
        ),
        (
            [
                SEEN,
                (STEP, f"{STEP}        own = {SUM} > 5\n        if context.step > 0:\n            if own:\n    {SETS}"),
            ],
            "the change of seen is inside a branch whose condition depends on the examples",
        ),
        (
            [
                SEEN,
                (
                    STEP,
                    f"{STEP}        if context.step > 0:\n            if context.step > 1:\n    {SETS[:-2]}*{SUM})\n",
                ),
            ],
            "train_step changes seen by a value that depends on its examples",
        ),
        (
            [SEEN, (STEP, f"{STEP}        tf.switch_case(tf.cast(context.step, tf.int32), [lambda: {INNER}] * 2)\n")],
            "the change of seen is inside a loop, a tf.switch_case or a tf.function of the step's own",
        ),
        (
            [SEEN, (STEP, f"{STEP}        if {SUM} > 5:\n            self.seen.assign(tf.ones([4]))\n")],
            "the change of seen is inside a branch whose condition depends on the examples",
        ),
        (
            [SEEN, (STEP, f"{STEP}        if context.step > 5:\n            self.seen.assign(tf.ones([4]) * {SUM})\n")],
            "train_step changes seen by a value that depends on its examples",
        ),
        *(
            (
                [SEEN, (STEP, f"{STEP}        self.seen.assign_add(tf.ones([4]) * {count})\n")],
                "how many examples it gets",
            )
            for count in COUNTS
        ),
        (
            [SEEN, (STEP, f"{STEP}        if context.step > 5:\n            {SET}tf.ones([4]) * {COUNTS[0]})\n")],
            "train_step changes seen by a value or in a branch that depends on how many examples it gets",
        ),
        (
            [
                SEEN,
                (STEP, f"{STEP}        {SET}tf.ones([4]))\n        tf.reshape(batch['image'], [4, 64])\n"),
            ],
            "changes seen, so it must give the same for a shard's 4 examples and the batch's 16, but fails for these: let "
            "it take both, or set train.shards to 1: ValueError: Cannot reshape a tensor with 1024 elements",
        ),
        (
            [SEEN, (STEP, f"{STEP}        if tf.shape(batch['label'])[0] > 8:\n{SETS}")],
            "train_step changes seen by a value or in a branch that depends on how many examples it gets",
        ),
        (
            [SEEN, (STEP, f"{STEP}{RATE}            rate = {COUNTS[0]}\n{RATED}")],
            "train_step changes seen by a value or in a branch that depends on how many examples it gets",
        ),
        (
            [SEEN, (STEP, f"{STEP}{RATE}            rate = {SUM}\n{RATED}")],
            "train_step changes seen by a value that depends on its examples",
        ),
        (
            [SEEN, (STEP, f"{STEP}{LOOPED.replace('rate + k', f'rate + {SUM}')}{RATED}")],
            "train_step changes seen by a value that depends on its examples",
        ),
        (
            [
                SEEN,
                (STEP, f"{STEP}        self.count += 1\n        {SET}self.count * tf.ones([4]))\n"),
                ("        rate = keras", "        self.count = 0\n        rate = keras"),
            ],
            "train_step changes the Python attribute self.count",
        ),
        (
            [SEEN, (STEP, f"{STEP}        self.seen.scatter_nd_add([[1]], [1.0])\n")],
            "train_step changes seen once for each shard of the batch",
        ),
        (
            [(STEP, OWN_OPTIMIZER)],
            "by a value that depends on its examples",
        ),
        (
            [(STEP, "        metrics = tf.function(lambda: super(Everything, self).train_step(batch, context))()\n")],
            "is inside a loop, a tf.switch_case or a tf.function of the step's own",
        ),
        (
            [('return {**batch, "flip": flips}', 'return {**batch, "flip": flips, "pair": tf.zeros([2, 16])}')],
            "train.shards is 4: prepare returns 'pair' of shape (2, 16), which cannot be cut",
        ),
        (
            [
                (
                    STEP,
                    "        metrics = {'loss': self.loss(batch, training=True)[0]}\n"
                    "        if len(NUMBERS) % 2:\n            metrics['more'] = metrics['loss']\n"
                    "        NUMBERS.append(1)\n",
                ),
                ("class Everything", "NUMBERS = []\n\nclass Everything"),
            ],
            "one shard of a step returns the metrics loss, another loss, more",
        ),
    ],
)
def test_what_shards_cannot_do_is_refused_by_name(blobs, edits, said):
    with pytest.raises(InputError) as refused:
        blobs(*edits, shards=4)
    assert said in str(refused.value)
    assert not [one for one in threading.enumerate() if one.name.startswith("shard ")]


MEETS = (
    "        rate = tf.constant(0.0)\n"
    "        more = tf.zeros(tf.shape(batch['label']))\n"
    "        if context.step >= 0:\n"
    "            gradients, found = self.gradients(batch)\n"
    "            rate = tf.linalg.global_norm(gradients)\n"
    "            self.update(self.optimizer, self.variables, gradients)\n"
    "            more = found['loss']\n"
    "        metrics = {'loss': more}\n"
)
COSINE = "keras.optimizers.schedules.CosineDecay(0.1, 5, warmup_target=0.3, warmup_steps=2)"
PYTHONS = "tf.numpy_function(lambda x: x + 1, [self.seen], tf.float32, stateful=False)"
HELPER = ("class Everything", "class Helper:\n    kept = None\n\nHELPER = Helper()\n\nclass Everything")
HOLDS = ("        rate = keras", "        self.helper = HELPER\n        rate = keras")
HELPED = (
    "        if self.helper.kept is None:\n"
    "            self.helper.kept = tf.cast(context.step, tf.float32)\n"
    "        self.seen.assign(self.seen + self.helper.kept)\n"
)


@pytest.mark.first(3)
@pytest.mark.parametrize(
    "edits",
    [
        [(STEP, f"{STEP}{RATE}            rate = 0.1 + self.seen[0]\n{RATED}")],
        [(STEP, f"{STEP}{LOOPED}{RATED}")],
        [(STEP, f"{MEETS}{RATED}")],
        [(STEP, f"{STEP}        self.seen.assign({COSINE}(context.step) * tf.ones([4]))\n")],
        [(STEP, f"{STEP}        self.more.assign(self.seen.assign_add(tf.ones([4])))\n"), MORE],
        [(STEP, f"{STEP}        self.seen.assign(tf.ensure_shape({PYTHONS}, [4]))\n")],
        [(STEP, f"{STEP}{HELPED}"), HELPER, HOLDS],
    ],
    ids=["branch", "loop", "meeting", "schedule", "write", "python", "kept"],
)
def test_a_value_that_comes_another_way_than_from_examples_is_written(blobs, edits):
    large = blobs(STEEP, NO_DROPOUT, SEEN, *edits, steps=3)
    assert large.state["seen"].any()
    assert blobs(STEEP, NO_DROPOUT, SEEN, *edits, steps=3, shards=4).agrees(large)


KEEPING = '''
"""What Python keeps between the meetings of a normalization: in a layer, a dict, an absent attribute, a new layer."""
import keras, tensorflow as tf
from tapeline.recipe import Supervised

SEEN = []

class Last(keras.layers.Layer):
    def build(self, shape):
        self.inner = keras.layers.Dense(8, activity_regularizer="l2", kernel_initializer="ones")

    def call(self, x):
        self.last = self.inner(x)
        return self.last

class Keeping(Supervised):
    inputs, target = ("image",), "label"

    def build(self):
        self.last = Last()
        dense = keras.layers.Dense(3, kernel_initializer="ones")
        normalization = keras.layers.BatchNormalization()
        self.model = keras.Sequential([keras.Input((64,)), self.last, normalization, dense])
        self.optimizer = keras.optimizers.SGD(0.01)
        self.kept, self.listed, self.memo = {}, [], None
        self.scaled = tf.function(lambda rows: rows * self.kept["rows"])

    def loss(self, batch, *, training):
        x = tf.reshape(tf.cast(batch["image"], tf.float32) / 16, [-1, 64])
        self.kept["rows"], self.kept["labels"] = x, batch["label"]
        self.listed.append(x)
        logits = self.model(x, training=training)
        if self.memo is None:
            self.memo = tf.reduce_mean(self.last.last * x[:, :8] * self.listed[-1][:, 8:16], -1)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(self.kept["labels"], logits)
        losses = losses * (1 + self.memo + tf.reduce_mean(self.kept["rows"], -1))
        self.memo = None
        self.listed.clear()
        self.kept.clear()
        return losses, {}

    def predict(self, inputs):
        return {"class": tf.argmax(self.model(tf.reshape(tf.cast(inputs["image"], tf.float32), [-1, 64])), -1)}
'''


@pytest.mark.parametrize("mode", MODES)
def test_what_python_keeps_at_any_depth_is_each_shards_own(blobs, mode):
    large = blobs(source=KEEPING, compile=mode)
    assert blobs(source=KEEPING, compile=mode, shards=4).agrees(large)


@pytest.mark.parametrize(
    "edit",
    [
        ("logits = self.model(x,", "SEEN.append(x)\n        logits = self.model(x + SEEN[0],"),
        ("logits = self.model(x,", "logits = self.model(self.scaled(x),"),
    ],
)
@pytest.mark.parametrize("mode", ["graph", "eager"])
def test_what_one_shard_computes_and_another_uses_is_refused_by_name(blobs, edit, mode):
    with pytest.raises(InputError, match=r"shard 1 uses shard_0/\S+, which shard 0 has computed: train_step keeps it"):
        blobs(edit, source=KEEPING, compile=mode, shards=4)
    assert not [one for one in threading.enumerate() if one.name.startswith("shard ")]


FORWARD = (
    "        values = [one.value for one in self.variables]\n"
    "        with tf.autodiff.ForwardAccumulator(values, [tf.ones_like(one) for one in values]) as forward:\n"
    "            gradients, metrics = self.gradients(batch)\n"
    "        products = forward.jvp(gradients)\n"
    "        self.update(self.optimizer, self.variables, [g + 0.1 * p for g, p in zip(gradients, products)])\n"
)
PARALLEL = "tf.vectorized_map(lambda k: self.model(x * k, training=True), tf.constant([0.5, 1.0]))"
JACOBIAN = (
    "        with tf.GradientTape() as tape:\n"
    "            tape.watch(x)\n"
    "            logits = self.model(x, training=True)\n"
    "        tape.batch_jacobian(logits, x)\n"
)
AS_FLOATS = "        x = tf.reshape(tf.cast(batch['image'], tf.float32) / 16, [-1, 64])\n"
PLAIN_STEP = "        gradients, metrics = self.gradients(batch)\n"


@pytest.mark.first(3)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("step", "said"),
    [
        (FORWARD, "is inside a tf.autodiff.ForwardAccumulator, whose derivatives would be those of one shard"),
        (f"{AS_FLOATS}        {PARALLEL}\n{PLAIN_STEP}", "is inside a tf.vectorized_map or a tape's jacobian"),
        (f"{AS_FLOATS}{JACOBIAN}{PLAIN_STEP}", "is inside a tf.vectorized_map or a tape's jacobian"),
    ],
)
def test_derivatives_that_do_not_meet_are_refused_by_name(blobs, step, said, mode):
    body = f"    def train_step(self, batch, context):\n{step}        return metrics\n\n    def predict"
    edits = (*PENALTY[:3], NORMALIZED, ("    def predict", body))
    blobs(*edits, source=TABLE, compile=mode)
    with pytest.raises(InputError, match=said):
        blobs(*edits, source=TABLE, compile=mode, shards=4)


def meeting(place):
    from tapeline.recipe.sharding import meetings

    return meetings.meet(place, 1, sum)


@pytest.mark.parametrize(
    ("calls", "said"),
    [
        ([lambda: meeting("a"), lambda: meeting("b")], "shard 0 to a, shard 1 to b"),
        ([lambda: meeting("a"), lambda: 1], "shard 0 to a, shard 1 to its end"),
        ([lambda: 1, lambda: 1, lambda: meeting("c")], "shard 0 to its end, shard 2 to c"),
    ],
)
def test_shards_that_come_to_different_places_do_not_wait_for_ever(tf, calls, said):
    from tapeline.recipe.sharding.meetings import Shards

    with pytest.raises(InputError, match=said):
        Shards(calls, keep=lambda: lambda: None)()
    assert not [one for one in threading.enumerate() if one.name.startswith("shard ")]


def test_an_error_in_a_shard_or_a_meeting_is_the_callers(tf):
    from tapeline.recipe.sharding import meetings
    from tapeline.recipe.sharding.meetings import Shards

    def fails():
        raise LookupError("here")

    def bad(brought):
        raise LookupError(f"at the meeting of {len(brought)}")

    for calls, said in (
        ([lambda: meeting("a"), fails], "here"),
        ([lambda: meetings.meet("a", 1, bad)] * 3, "at the meeting of 3"),
    ):
        with pytest.raises(LookupError, match=said) as raised:
            Shards(calls, keep=lambda: lambda: None)()
        assert any(entry.name in ("fails", "bad") for entry in raised.traceback)
        assert not [one for one in threading.enumerate() if one.name.startswith("shard ")]
    assert Shards([lambda: meeting("a") + meeting("b")] * 3, keep=lambda: lambda: None)() == [6, 6, 6]


def test_shards_are_part_of_a_run_and_their_placement_is_not(make_settings):
    eight = make_settings(shards=8)
    assert eight.deciding() == make_settings(shards=8, at_once=1).deciding() != make_settings().deciding()
    assert "at_once" not in eight.deciding() and eight.deciding()["shards"] == 8


def test_threads_are_part_of_a_run_unless_they_are_the_default(make_settings):
    assert make_settings(threads=4).deciding() == make_settings().deciding()
    assert make_settings(threads=2).deciding() == {**make_settings().deciding(), "threads": 2}
    assert make_settings(threads=2, shards=2, compile="xla").operation_threads == 2
    assert make_settings(shards=2).operation_threads == 1


@pytest.fixture
def make_settings():
    return lambda **given: TrainSettings.model_validate({"epochs": 1, "batch_size": 16, **given})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"shards": 3}, "shards is 3, which does not divide batch_size 16"),
        (
            {"shards": 2, "threads": 2},
            "threads is for whole batches: in graph mode a shard has one thread, so drop one",
        ),
        ({"bits": "native", "threads": 2}, "threads needs bits portable: with native bits"),
        ({"threads": 0}, "threads"),
        ({"threads": 1025}, "threads"),
        (
            {"accumulate": 4},
            "accumulate: 4 is of an older Tapeline: write shards: 4 and at_once: 1, as `tapeline upgrade`",
        ),
        ({"replicas": 2}, "replicas: 2 is of an older Tapeline: write shards: 2, as"),
        ({"accumulate": 4, "replicas": 2}, "accumulate: 4 and replicas: 2 is of .* write shards: 8 and at_once: 2, as"),
        ({"accumulate": "x"}, "accumulate: x is of an older Tapeline: write shards, as"),
    ],
)
def test_settings_that_are_refused(make_settings, given, said):
    with pytest.raises(ValueError, match=said):
        make_settings(**given)


def test_shards_need_threads_that_tensorflow_has_not_begun_with(tmp_path, tf):
    run = Run(
        tmp_path,
        recipes.write(tmp_path),
        datasets.points(tmp_path / "points").folder,
        epochs=1,
        batch_size=2,
        shards=2,
    )
    with pytest.raises(InputError, match="an operation here has one thread, and TensorFlow has begun with others"):
        run()


CRITIC = '''
"""A critic takes each step and a generator each third one, as in WGAN; the branch has its tapes and an own counter."""
import keras, tensorflow as tf
from tapeline.recipe import Recipe

class Critic(Recipe):
    inputs = ("image",)

    def build(self):
        self.generator = keras.Sequential(
            [keras.Input((4,)), keras.layers.Dense(8), keras.layers.BatchNormalization(), keras.layers.Dense(64)]
        )
        self.critic = keras.Sequential([keras.Input((64,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
        self.generates, self.criticizes = keras.optimizers.SGD(0.1), keras.optimizers.SGD(0.1, momentum=0.9)
        self.count = tf.Variable(0)

    def train_step(self, batch, context):
        images = tf.reshape(tf.cast(batch["image"], tf.float32) / 16, [-1, 64])
        noise = images[:, :4]
        with tf.GradientTape() as tape:
            losses = (self.critic(self.generator(noise)) - self.critic(images))[:, 0]
            loss = tf.reduce_mean(losses)
        variables = self.critic.trainable_variables
        self.update(self.criticizes, variables, tape.gradient(loss, variables))
        generated = tf.zeros(tf.shape(noise)[:1])
        if context.step % 3 == 1:
            with tf.GradientTape() as tape:
                generated = -self.critic(self.generator(noise, training=True))[:, 0]
                mean = tf.reduce_mean(generated)
            variables = self.generator.trainable_variables
            self.update(self.generates, variables, tape.gradient(mean, variables))
            self.count.assign_add(1)
        return {"critic": losses, "generator": generated}

    def eval_step(self, batch, context):
        return {"loss": tf.zeros(tf.shape(batch["label"]))}

    def predict(self, inputs):
        return {"image": self.critic(tf.reshape(tf.cast(inputs["image"], tf.float32), [-1, 64]))}
'''


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_shards_take_a_branch_together_if_they_meet_in_it(blobs, mode):
    large = blobs(source=CRITIC, compile=mode, steps=5)
    assert large.state["count"] == 2
    for shards in (2, 4):
        assert blobs(source=CRITIC, compile=mode, steps=5, shards=shards).agrees(large)


TAPE_BEFORE = (
    STEP,
    "        with tf.GradientTape() as tape:\n"
    "            losses, _ = self.loss(batch, training=True)\n"
    "            mean = tf.reduce_mean(losses)\n"
    "        if context.step % 2 == 0:\n"
    "            self.update(self.optimizer, self.variables, tape.gradient(mean, self.variables))\n"
    "        metrics = {'loss': losses}\n",
)


@pytest.mark.parametrize("mode", MODES)
def test_a_tape_that_ended_before_the_branch_gives_its_gradients_inside(blobs, mode):
    large = blobs(STEEP, NO_DROPOUT, TAPE_BEFORE, compile=mode, steps=3)
    assert blobs(STEEP, NO_DROPOUT, TAPE_BEFORE, compile=mode, steps=3, shards=4).agrees(large)


GUARDED = (
    STEP,
    "        gradients, metrics = self.gradients(batch)\n"
    "        self.flags = tf.ones([4])\n"
    "        if tf.linalg.global_norm(gradients) < 1e4:\n"
    "            if context.step > 0:\n"
    "                self.update(self.optimizer, self.variables, gradients)\n"
    "                self.kept.assign(self.flags * 2)\n",
)
KEPT = ("        rate = keras", "        self.kept = tf.Variable(tf.zeros([4]), name='kept')\n        rate = keras")


@pytest.mark.slow
@pytest.mark.parametrize("mode", MODES)
def test_a_condition_may_depend_on_what_shards_have_met_over_and_be_in_another(blobs, mode):
    large = blobs(STEEP, NO_DROPOUT, GUARDED, KEPT, compile=mode, steps=3)
    assert large.state["kept"].tolist() == [2, 2, 2, 2]
    for more in ({}, {"at_once": 1}):
        assert blobs(STEEP, NO_DROPOUT, GUARDED, KEPT, compile=mode, steps=3, shards=4, **more).agrees(large)


OWN_BRANCH = (
    STEP,
    f"        more = tf.zeros([tf.shape(batch['label'])[0]])\n{STEP}"
    "        if tf.reduce_any(batch['label'] == 2):\n            more += 1.0\n"
    "        metrics['more'] = more\n",
)


def test_a_branch_without_a_meeting_stays_each_shards_own(blobs):
    total, count = blobs(OWN_BRANCH, NO_DROPOUT, batch_size=16, shards=16).metrics["more"]
    assert count == 16 and 0 < total < 16, "some have an example of the class"


AROUND = (
    STEP,
    "        with tf.GradientTape() as tape:\n"
    "            losses, _ = self.loss(batch, training=False)\n"
    "            if context.step > 0:\n"
    "                self.kept.assign_add(tf.ones([4]))\n"
    "                losses = losses * 2\n"
    "            mean = tf.reduce_mean(losses)\n"
    "        self.update(self.optimizer, self.variables, tape.gradient(mean, self.variables))\n"
    "        metrics = {'loss': losses}\n",
)


def test_a_meeting_in_a_branch_within_a_tape_is_refused_by_name(blobs):
    with pytest.raises(
        InputError, match=r"the change of kept is inside a branch inside the block of a tf.GradientTape"
    ):
        blobs(AROUND, KEPT, shards=4)


BODY = (
    "        loss = tf.zeros(tf.shape(batch['label']))",
    "        WHEN:",
    "            gradients, found = self.gradients(batch)",
    "            noise = keras.random.uniform([4], seed=self.drawn) + tf.random.stateless_uniform([4], context.seed)",
    "            self.update(self.optimizer, self.variables, gradients)",
    "            loss = found['loss'] + tf.reduce_sum(noise)",
    "        metrics = {'loss': loss}\n",
)
DRAWN = ("        rate = keras", "        self.drawn = keras.random.SeedGenerator(3)\n        rate = keras")


@pytest.mark.parametrize("mode", MODES)
def test_a_branch_that_is_always_taken_changes_no_bit(blobs, mode):
    """With dropout and draws, whose seeds are each shard's own, and with batch normalization."""
    trained = [
        blobs(STEEP, DRAWN, (STEP, "\n".join(BODY).replace("WHEN", when)), compile=mode, steps=3, shards=4)
        for when in ("if True", "if context.step >= 0")
    ]
    plain, branch = trained
    assert plain.moved > 1e-4
    for name, value in plain.state.items():
        assert value.tobytes() == branch.state[name].tobytes(), name
    assert plain.metrics["loss"] == pytest.approx(branch.metrics["loss"], rel=1e-6)
