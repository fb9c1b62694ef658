"""What a checkpoint could not hold is refused by its name, before the first step."""

from types import SimpleNamespace

import datasets
import pytest
import recipes
from trainings import Crash, Lengths, Run, crash_after

from tapeline.runtime.errors import InputError
from tapeline.runtime.records import Skipped

STEP = "    def loss(self"


@pytest.fixture
def train(tmp_path, tf):
    data = datasets.points(tmp_path / "points").folder

    def call(*edits, **settings):
        recipe = recipes.write(tmp_path, recipes.LINE, *edits)
        return Run(tmp_path / "run", recipe, data, epochs=1, batch_size=8, **settings)()

    return call


TABLE = "table = tf.lookup.experimental.MutableHashTable(tf.int32, tf.float32, 1.0)\n\nclass Line"
HIDDEN = "count = tf.Variable(0.0, name='hidden_counter')\n\nclass Line"


@pytest.mark.parametrize(
    ("edits", "said"),
    [
        (
            [
                ("class Line", HIDDEN),
                (
                    STEP,
                    "    def train_step(self, batch, context):\n        count.assign_add(1.0)\n"
                    "        return super().train_step(batch, context)\n\n" + STEP,
                ),
            ],
            "train_step changes or reads hidden_counter",
        ),
        (
            [("class Line", TABLE), ("tf.reduce_mean(", "tf.reshape(table.lookup(0), []) * tf.reduce_mean(")],
            "train_step changes or reads an unnamed resource, which no attribute of the recipe holds",
        ),
        (
            [("tf.reduce_mean(", "tf.random.normal([]) * tf.reduce_mean(")],
            "train_step draws from the stateful RandomStandardNormal",
        ),
        (
            [
                (
                    STEP,
                    "    def train_step(self, batch, context):\n        self.calls = getattr(self, 'calls', 0) + 1\n"
                    "        return super().train_step(batch, context)\n\n" + STEP,
                )
            ],
            "train_step changes the Python attribute self.calls",
        ),
        (
            [
                (
                    STEP,
                    "    def train_step(self, batch, context):\n        self.seen['x'].append(1)\n"
                    "        return super().train_step(batch, context)\n\n" + STEP,
                ),
                ("    def build(self):\n", "    def build(self):\n        self.seen = {'x': []}\n"),
            ],
            "train_step changes the Python attribute self.seen['x']",
        ),
        (
            [
                ("self.model = keras", "self.spare = tf.Variable(1.0)\n        self.model = keras"),
                (
                    STEP,
                    "    @property\n    def variables(self):\n"
                    "        return [*self.model.trainable_variables, self.spare]\n\n" + STEP,
                ),
            ],
            "no gradient for Variable:0: the loss does not depend on it",
        ),
        (
            [
                (
                    "self.model = keras",
                    "self.norm = keras.layers.Normalization(mean=0.5, variance=2.0)\n        self.model = keras",
                ),
                ('batch["x"]', 'self.norm(batch["x"])'),
            ],
            "which a layer created while another function was traced: create it in `build`",
        ),
        (
            [
                (
                    "self.model = keras",
                    "self.writer = tf.summary.create_file_writer(__file__ + '.logs')\n        self.model = keras",
                ),
                (
                    STEP,
                    "    def train_step(self, batch, context):\n        metrics = super().train_step(batch, context)\n"
                    "        with self.writer.as_default(step=context.step):\n"
                    "            tf.summary.scalar('loss', tf.reduce_mean(metrics['loss']))\n"
                    "        return metrics\n\n" + STEP,
                ),
            ],
            "return the number as a metric, which train.tensorboard writes",
        ),
        (
            [
                (
                    STEP,
                    "    @property\n    def variables(self):\n        return self.model.weigths\n\n" + STEP,
                ),
            ],
            "line 17 does not build: AttributeError",
        ),
        ([('batch["y"]', 'batch["z"]')], "line 16 does not trace: KeyError: 'z'; a batch has x, y"),
        ([("self.params.learning_rate", "self.params.rate")], "line 13 does not build: AttributeError"),
        (
            [("import keras, tensorflow as tf", "import keras, tensorflow as tf\nimport no_such_module")],
            "line 3 does not load: ModuleNotFoundError",
        ),
        (
            [("import keras, tensorflow as tf", "import keras, tensorflow as tf\nraise SystemExit")],
            "line 3 does not load: it calls sys.exit(None)",
        ),
        ([("class Line(Supervised)", "class Line")], "must define exactly one class derived from Recipe"),
        ([(STEP, "    def loss2(self")], "Line lacks loss"),
        (
            [(", {}\n", ", {'square': tf.zeros([2, 2])}\n")],
            "metric 'square' has shape (2, 2): return one value per example",
        ),
    ],
)
def test_refused_by_name(train, edits, said):
    with pytest.raises(InputError) as raised:
        train(*edits)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_mode_that_the_recipe_does_not_support(train):
    modes = ("    inputs, target", "    modes = {'graph': ('float32',)}\n    inputs, target")
    with pytest.raises(InputError, match="Line does not support xla with float32: it supports graph: float32"):
        train(modes, compile="xla")


def test_transforms_for_an_optimizer_that_is_not_there(train):
    with pytest.raises(InputError, match="train.gradients names adam: the optimizers of Line are optimizer"):
        train(gradients={"adam": {"clip_norm": 1.0}})
    own = ("self.optimizer = keras", "self.agents = [[keras.optimizers.SGD()]]; self.optimizer = None  # keras")
    with pytest.raises(InputError, match="names agents.0.0: the optimizers of Line are not in attributes, lists"):
        train(own, gradients={"agents.0.0": {"clip_norm": 1.0}})


CALLS = {
    "nothing": lambda tf, use, handle: use(handle),
    "If": lambda tf, use, handle: tf.cond(tf.zeros([]) < 1, lambda: use(handle), lambda: 0.0),
    "If, the other way": lambda tf, use, handle: tf.cond(tf.zeros([]) < 1, lambda: 0.0, lambda: use(handle)),
    "Case": lambda tf, use, handle: tf.switch_case(
        tf.zeros([], tf.int32), [lambda: 0.0, lambda: 0.0, lambda: use(handle)]
    ),
    "While": lambda tf, use, handle: tf.while_loop(lambda x: x < 3, lambda x: x + use(handle), [0.0]),
    "out of While": lambda tf, use, handle: use(
        tf.while_loop(lambda x, _: x < 3, lambda x, it: (x + 1, it), [0.0, handle])[1]
    ),
    "PartitionedCall": lambda tf, use, handle: tf.function(lambda: use(handle))(),
    "one in another": lambda tf, use, handle: tf.cond(tf.zeros([]) < 1, tf.function(lambda: use(handle)), lambda: 0.0),
    "Identity": lambda tf, use, handle: use(tf.identity(handle)),
}


@pytest.mark.parametrize("kind", list(CALLS))
def test_a_change_is_found_in_whatever_is_called(tf, kind):
    from tapeline.train.checks import completeness

    read, changed, free = tracked = [tf.Variable(0.0, name=name) for name in ("read", "changed", "free")]
    tracked = {variable.name.partition(":")[0]: variable for variable in tracked}

    def change(handle):
        tf.raw_ops.AssignAddVariableOp(resource=handle, value=read + 1.0)
        return tf.zeros([])

    def look(handle):
        return tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32)

    def step(use):
        free.assign(read + changed)
        CALLS[kind](tf, use, changed.handle)
        return read * 2.0

    def traced(use):
        return tf.function(lambda: step(use), autograph=False).get_concrete_function()

    changes = traced(change)
    assert completeness.written(changes) == {id(changed.handle), id(free.handle)}
    completeness.check(changes, tracked)
    for where in ("eval_step", "prepare"):
        with pytest.raises(InputError, match=f"^{where} changes changed: "):
            completeness.check(changes, tracked, where=where, writable={"free": free})
    with pytest.raises(
        InputError, match="^train_step changes or reads changed:0, which no attribute of the recipe holds"
    ):
        completeness.check(changes, {"read": read, "free": free})
    completeness.check(traced(look), tracked, where="eval_step", writable={"free": free})


@pytest.mark.parametrize(
    ("operation", "said"),
    [
        (lambda tf, x: tf.random.normal([]), "draws from the stateful RandomStandardNormal"),
        (lambda tf, x: tf.random.stateless_normal([], [1, 2]), None),
        (lambda tf, x: tf.py_function(lambda: 1.0, [], tf.float32), "calls Python through EagerPyFunc"),
        (lambda tf, x: tf.numpy_function(lambda: 1.0, [], tf.float32), "calls Python through PyFunc"),
        (lambda tf, x: tf.numpy_function(lambda: 1.0, [], tf.float32, stateful=False), None),
        (lambda tf, x: tf.timestamp(), "reads the clock"),
        (lambda tf, x: tf.raw_ops.FIFOQueueV2(component_types=[tf.float32]), "uses the stateful FIFOQueueV2"),
        (lambda tf, x: tf.nn.compute_accidental_hits(tf.ones([1, 1], tf.int64), tf.ones([3], tf.int64), 1), None),
        (
            lambda tf, x: tf.random.uniform_candidate_sampler(tf.ones([1, 1], tf.int64), 1, 2, True, 9),
            ".* with context.seed in prepare, and pass what it draws as sampled_values",
        ),
        (lambda tf, x: tf.print(x), None),
        (lambda tf, x: tf.debugging.assert_all_finite(x, ""), None),
        (lambda tf, x: pool(tf, x, deterministic=True, seed=1, seed2=0), None),
        (lambda tf, x: pool(tf, x, deterministic=True, seed=0, seed2=1), None),
        (lambda tf, x: pool(tf, x, deterministic=True, seed=0, seed2=0), "draws from the stateful FractionalMaxPool"),
        (lambda tf, x: pool(tf, x, deterministic=False, seed=1, seed2=1), "draws from the stateful FractionalMaxPool"),
    ],
)
def test_operations_with_state_of_their_own(tf, operation, said):
    from tapeline.train.checks import completeness

    def step():
        operation(tf, tf.zeros([1, 4, 4, 1]))
        return tf.zeros([])

    traced = tf.function(step, autograph=False).get_concrete_function()
    if said is None:
        completeness.check(traced, {})
    else:
        with pytest.raises(InputError, match=f"^train_step {said}"):
            completeness.check(traced, {})


def pool(tf, x, **options):
    return tf.raw_ops.FractionalMaxPool(value=x, pooling_ratio=[1.0, 1.5, 1.5, 1.0], **options)


def test_what_is_kept_anywhere_in_the_recipe_is_tracked(tmp_path, tf):
    """Variables in dicts, lists, modules inside layers, and optimizers in a dict all come back from a checkpoint."""
    from tapeline.recipe import loading, variables

    source = """
import keras, tensorflow as tf
from tapeline.recipe import Recipe

class Holder(tf.Module):
    def __init__(self):
        super().__init__()
        self.inner = [tf.Variable(1.0), {"deep": tf.Variable(2.0)}]

class Odd(Recipe):
    def build(self):
        self.models = {"a": keras.Sequential([keras.Input((2,)), keras.layers.Dropout(0.5), keras.layers.Dense(1)])}
        self.holders = [Holder(), (tf.Variable(3.0),)]
        self.optimizers = {"one": keras.optimizers.Adam(), "two": [keras.optimizers.SGD(momentum=0.9)]}
        for optimizer in (self.optimizers["one"], self.optimizers["two"][0]):
            optimizer.build(self.models["a"].trainable_variables)
        self.same = self.models["a"]
    def train_step(self, batch, context): return {}
    def eval_step(self, batch, context): return {}
"""
    found = variables.find(loading.build(recipes.write(tmp_path, source), {}, {}))
    assert len(found.weights) == 5
    assert len(found.seeds) == 1
    assert len(found.optimizers) == 2 + 2 * 2 + 2 + 2
    assert len({id(variable) for variable in found.all().values()}) == len(found.all())


def test_what_optimizers_keep_is_theirs_and_what_they_train_is_the_models(tf):
    """Also the optimizer of a compiled model, and where one that lists its weights comes before them."""
    import keras

    from tapeline.recipe import variables

    class Listing(keras.optimizers.SGD):
        def build(self, trained):
            super().build(trained)
            self.listed = list(trained)
            self.sums = {"one": [tf.Variable(tf.zeros_like(one)) for one in trained]}

    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(optimizer=keras.optimizers.SGD(momentum=0.9))
    model.optimizer.build(model.trainable_variables)
    weight, listing = tf.Variable([1.0]), Listing()
    listing.build([weight])
    found = variables.find(SimpleNamespace(listing=listing, weight=weight, model=model))
    assert len(found.weights) == 1 + 2
    assert found.weights["weight"] is weight
    assert len(found.optimizers) == 3 + 4
    assert "listing/sums/one/0" in found.optimizers


def test_variables_in_a_dict_have_the_same_names_in_each_process(tmp_path, tf):
    """The text of a variable's reference has its values, that of an object its address."""
    from tapeline.recipe import loading, variables

    source = """
import enum
import keras, tensorflow as tf
from tapeline.recipe import Recipe

class Part(enum.Enum):
    BODY = 1

class Keyed(Recipe):
    def build(self):
        self.table = tf.Variable([1.0])
        keys = ["a", 7, Part.BODY, (0, "b"), self.table.ref(), object()]
        self.slots = {key: tf.Variable(0.0) for key in keys}
    def train_step(self, batch, context): return {}
    def eval_step(self, batch, context): return {}
"""
    found = variables.find(loading.build(recipes.write(tmp_path, source), {}, {}))
    names = ["a", "7", "Part.BODY", "(0, 'b')", "4", "5"]
    assert list(found.weights) == ["table", *(f"slots/{name}" for name in names)]


def test_a_variable_may_be_text(train, tf):
    from tapeline.recipe import variables

    note = ("        self.model = keras", '        self.note = tf.Variable("v1")\n        self.model = keras')
    measures = ("    def predict", "    def evaluate(self, data):\n        return {'size': 1.0}\n\n    def predict")
    assert train(note, measures).out.exists()
    one, same, other = ({"note": tf.Variable(["a" * 99, text])} for text in "bbc")
    assert variables.bits(one) == variables.bits(same) != variables.bits(other)


AROUND = """class Falling(keras.optimizers.schedules.LearningRateSchedule):
    def __init__(self):
        self.factor = tf.Variable(1.0)

    def __call__(self, step):
        return 0.01 * self.factor

class Around(keras.optimizers.Optimizer):
    def __init__(self, inner):
        super().__init__(learning_rate=0.01)
        self.inner, self.calls = inner, tf.Variable(0)

    def build(self, variables):
        super().build(variables)
        self.inner.build(variables)
        self.trained = list(variables)
        self.slots = {"sum": [tf.Variable(tf.zeros(v.shape), trainable=False) for v in variables]}

    def apply(self, gradients, variables=None):
        self.calls.assign_add(1)
        for slot, gradient in zip(self.slots["sum"], gradients):
            slot.assign(0.9 * slot + gradient)
        self.inner.apply(self.slots["sum"], variables)
        self.inner._learning_rate.factor.assign(self.inner._learning_rate.factor * 0.9)

class Layer(keras.layers.Layer):
    def build(self, shape):
        self.sums = [tf.Variable(tf.zeros([2]), trainable=False)]
        self.named = {"most": tf.Variable(tf.zeros([2]), trainable=False)}
        self.deep = {"last": [tf.Variable(tf.zeros([2]), trainable=False)]}

    def call(self, x, training=False):
        if training:
            self.sums[0].assign_add(x[0])
            self.named["most"].assign(tf.maximum(self.named["most"], x[0]))
            self.deep["last"][0].assign(x[1])
        return x + 0.001 * (self.sums[0] + self.named["most"] + self.deep["last"][0])

class Line"""


@pytest.mark.parametrize("mode", ["graph", pytest.param("eager", marks=pytest.mark.slow)])
def test_what_own_optimizers_and_layers_keep_inside_is_found_and_resumed(tmp_path, tf, mode):
    """An optimizer in another one, its schedule; variables in lists and dicts of a layer and of an optimizer."""
    recipe = recipes.write(
        tmp_path,
        recipes.LINE,
        ("class Line", AROUND),
        ("keras.Input((2,)), ", "keras.Input((2,)), Layer(), "),
        ("keras.optimizers.SGD(self.params.learning_rate)", "Around(keras.optimizers.Adam(Falling()))"),
    )
    data = datasets.points(tmp_path / "points").folder
    settings = {"epochs": 2, "batch_size": 8, "compile": mode, "checkpoint": {"every_steps": 3}}
    whole = Run(tmp_path / "whole", recipe, data, **settings)().outs()
    cut = Run(tmp_path / "cut", recipe, data, **settings)
    with pytest.raises(Crash):
        cut(hooks=[crash_after(6)], pace=Lengths(3))
    assert cut().outs() == whole


COUNTED = """class Counted(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense, self.seen, self.more = keras.layers.Dense(1), keras.metrics.Mean(), [keras.metrics.Sum()]

    def call(self, x):
        return self.dense(x)


class Line("""


@pytest.mark.parametrize("mode", ["graph", "eager"])
def test_metrics_of_keras_inside_a_model_are_state(tmp_path, tf, mode):
    step = (
        "    def train_step(self, batch, context):\n        metrics = super().train_step(batch, context)\n"
        '        self.model.seen.update_state(metrics["loss"])\n'
        '        self.model.more[0].update_state(metrics["loss"])\n'
        '        return {**metrics, "mean": tf.fill(tf.shape(metrics["loss"]), self.model.seen.result())}\n\n'
    )
    model = "keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])"
    edits = (("class Line(", COUNTED), (model, "Counted(); self.model(tf.zeros([1, 2]))"), (STEP, step + STEP))
    recipe = recipes.write(tmp_path, recipes.LINE, *edits)
    data = datasets.points(tmp_path / "points").folder
    settings = {"epochs": 2, "batch_size": 8, "compile": mode, "checkpoint": {"every_steps": 3}}
    whole = Run(tmp_path / "whole", recipe, data, **settings)()
    cut = Run(tmp_path / "cut", recipe, data, **settings)
    with pytest.raises(Crash):
        cut(hooks=[crash_after(6)], pace=Lengths(3))
    assert cut().outs() == whole.outs()
    stored = tf.train.list_variables(str(whole.out / "weights" / "weights"))
    assert [name for name, _ in stored if "dense" not in name] == [
        *("model/counted/more/0/variables/0", "model/counted/seen/variables/0", "model/counted/seen/variables/1")
    ]


COMPLEX = """    def train_step(self, batch, context):
        metrics = super().train_step(batch, context)
        broken = tf.where(tf.equal(context.step, 4), float("nan"), 0.0)
        self.phase.assign(tf.complex(tf.cast(context.step, tf.float32), broken))
        return metrics

    def loss(self"""


def test_a_complex_number_that_is_not_finite_is_skipped(tmp_path, tf):
    recipe = recipes.write(
        tmp_path,
        recipes.LINE,
        ("    def loss(self", COMPLEX),
        (
            "        self.optimizer =",
            "        self.phase = tf.Variable(tf.complex(0.0, 0.0))\n        self.optimizer =",
        ),
    )
    run = Run(
        tmp_path / "run", recipe, datasets.points(tmp_path / "points").folder, epochs=2, batch_size=8, max_skipped=1
    )
    skipped = []
    run(hooks=[lambda record: skipped.append((record.start, record.reason)) if isinstance(record, Skipped) else None])
    assert skipped == [(4, "phase has a non-finite value")]


LEAST = """    def train_step(self, batch, context):
        metrics = super().train_step(batch, context)
        self.least.assign(tf.where(CONDITION, metrics["loss"][0], self.least))
        return metrics

    def loss(self"""
INFINITE = ("        self.optimizer =", "        self.least = tf.Variable(float('inf'))\n        self.optimizer =")


@pytest.mark.parametrize("length", [1, 10])
def test_a_variable_that_starts_at_infinity_may_be_set_by_the_first_step(tmp_path, tf, length):
    recipe = recipes.write(
        tmp_path, recipes.LINE, INFINITE, (STEP, LEAST.replace("CONDITION", "context.step % 4 == 0"))
    )
    data = datasets.points(tmp_path / "points").folder
    Run(tmp_path / "run", recipe, data, epochs=2, batch_size=8)(pace=Lengths(length))


@pytest.mark.parametrize("length", [1, 10])
@pytest.mark.parametrize("skips", [0, 3])
def test_one_that_stays_there_is_refused_by_name_whatever_the_length_of_the_loop(tmp_path, tf, length, skips):
    recipe = recipes.write(
        tmp_path, recipes.LINE, INFINITE, (STEP, LEAST.replace("CONDITION", "context.step % 4 == 3"))
    )
    data = datasets.points(tmp_path / "points").folder
    run = Run(tmp_path / "run", recipe, data, epochs=2, batch_size=8, max_skipped=skips)
    said = r"^least is not finite before step 0, so that nothing after it is either \(least has a non-finite value\): initialize it with a large"
    with pytest.raises(InputError, match=said):
        run(pace=Lengths(length))
    assert not run.saved()
