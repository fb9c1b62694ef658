"""What a checkpoint could not hold is refused by its name, before the first step."""

import datasets
import pytest
import recipes
from trainings import Run

from tapeline.runtime.errors import InputError

STEP = "    def loss(self"


@pytest.fixture
def train(tmp_path, tf):
    data = datasets.points(tmp_path / "points").folder

    def call(*edits, **settings):
        recipe = recipes.write(tmp_path, recipes.LINE, *edits)
        return Run(tmp_path / "run", recipe, data, epochs=1, batch_size=8, **settings)()

    return call


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
        ([('batch["y"]', 'batch["z"]')], "line 16 does not trace: KeyError: 'z'"),
        ([("self.params.learning_rate", "self.params.rate")], "line 13 does not build: AttributeError"),
        (
            [("import keras, tensorflow as tf", "import keras, tensorflow as tf\nimport no_such_module")],
            "line 3 does not load: ModuleNotFoundError",
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
    with pytest.raises(InputError, match="Line does not support xla with float32; it has graph: float32"):
        train(modes, compile="xla")


def test_transforms_for_an_optimizer_that_is_not_there(train):
    with pytest.raises(InputError, match="train.gradients names adam: the optimizers of Line are optimizer"):
        train(gradients={"adam": {"clip_norm": 1.0}})


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
