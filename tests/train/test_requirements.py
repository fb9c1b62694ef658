"""What would only come out after hours of training is refused before the first step, in the recipe's terms."""

import datasets
import pytest
import recipes
from trainings import Run

from tapeline.runtime.errors import InputError, RunError

PREDICT = "    def predict(self"
PREPARE = "    def prepare(self, batch, context):\n        pass\n\n" + PREDICT
BY_ITSELF = (
    "    def train_step(self, batch, context):\n        gradients, metrics = self.gradients(batch)\n"
    "        self.optimizer.apply_gradients(zip(gradients, self.variables))\n        return metrics\n\n" + PREDICT
)
DECORATED = (
    "    @tf.function\n    def train_step(self, batch, context):\n"
    "        return Supervised.train_step(self, batch, context)\n\n" + PREDICT
)
LATE = (
    "    def train_step(self, batch, context):\n        if not hasattr(self, 'late'):\n"
    "            self.late = tf.Variable(tf.zeros([]))\n        return super().train_step(batch, context)\n\n" + PREDICT
)
RAGGED = (
    "    def prepare(self, batch, context):\n"
    "        return {**batch, 'x': tf.RaggedTensor.from_row_lengths(batch['x'], [8])}\n\n" + PREDICT
)
MASKED = (
    "    def prepare(self, batch, context):\n"
    "        return {**batch, 'x': tf.boolean_mask(batch['x'], batch['x'][:, 0] > 0)}\n\n" + PREDICT
)
CONSTANT = (
    "    def train_step(self, batch, context):\n        return {'loss': batch['y'][:, 0]}\n\n"
    "    eval_step = train_step\n\n" + PREDICT
)
EVAL = "    def eval_step(self, batch, context):\n        {}\n\n" + PREDICT
STEP = "    def train_step(self, batch, context):\n        super().train_step(batch, context)\n{}\n" + PREDICT


@pytest.fixture
def run(tmp_path, tf):
    data = datasets.points(tmp_path / "points").folder

    def call(*edits, **settings):
        recipe = recipes.write(tmp_path, recipes.LINE, *edits)
        return Run(tmp_path / "run", recipe, data, **{"epochs": 2, "batch_size": 8, **settings})

    return call


@pytest.mark.parametrize("mode", ["graph", "eager"])
@pytest.mark.parametrize(
    ("edits", "settings", "said"),
    [
        (
            [],
            {"best": {"metric": "acc", "mode": "max"}},
            "^train.best.metric is 'acc': the metrics of a validation are loss$",
        ),
        ([('("x",)', '("z",)')], {}, r"^Line.inputs names 'z': the features of points are x, y$"),
        ([('("x",)', '"image"')], {}, r"^Line.inputs names 'i': .* x, y; inputs is a string: write \('image',\)$"),
        ([('"y"\n', '"z"\n')], {}, r"^Line.target is 'z': the features of points are x, y$"),
        ([(PREDICT, EVAL.format("pass"))], {}, "^eval_step returns nothing: return a dict of metrics, such as"),
        ([(PREDICT, EVAL.format("return {}"))], {}, "^Line.eval_step returns no metric: return at least one"),
        ([(PREDICT, STEP.format(""))], {}, "^train_step returns nothing: return a dict of metrics"),
        ([(PREDICT, STEP.format("        return {}\n"))], {}, "^Line.train_step returns no metric"),
        (
            [("-1), {}", "-1), {'val_x': batch['y'][:, 0]}")],
            {},
            "^Line.train_step returns a metric 'val_x': history.csv",
        ),
        ([("-1), {}", "-1), {'step': batch['y'][:, 0]}")], {}, "^Line.train_step returns a metric 'step': history.csv"),
        ([("training=training)), -1), {}", "training=training)), -1)")], {}, "^Line.loss must return a pair: the loss"),
        ([("-1), {}", "-1), {}, {}")], {}, "^Line.loss must return a pair"),
        ([("self.model", "self.net")], {}, "^Line has no self.model: create it in `build`, or override the property"),
        ([("self.optimizer", "self.adam")], {}, "^Line has no self.optimizer: create it in `build`$"),
        (
            [("keras.Input((2,)), ", "")],
            {},
            "^Line creates model/sequential/dense/.*, for a model by adding keras.Input",
        ),
        (
            [
                ("Params, Supervised", "Params, Recipe"),
                ("Line(Supervised)", "Line(Recipe)"),
                ("self.model = ", "_ = "),
                ("        self.optimizer = keras.optimizers.SGD(self.params.learning_rate)\n", ""),
                (PREDICT, CONSTANT),
            ],
            {},
            "^Line has no weight, so there is nothing to train: create a model or a tf.Variable in `build`$",
        ),
        ([(PREDICT, LATE)], {}, "^Line creates late in its first step, so nothing could load it: create it in"),
        ([("self.optimizer", "self.optimizers")], {}, "^self.optimizers is a SGD, but every"),
        ([(PREDICT, DECORATED)], {}, "^Line.train_step is a tf.function: remove the decorator; train.compile says how"),
        (
            [("        self.optimizer =", "        self.target = self.model\n        self.optimizer =")],
            {},
            "^Line.target is a Sequential, but it is the name of the feature that `predict` predicts: rename the attribute$",
        ),
        ([("-1), {}", "-1), {'pair': [1.0, 2.0]}")], {}, "^metric 'pair' is a list: return a tensor of one value per"),
        ([(PREDICT, RAGGED)], {}, "prepare returns 'x' as a RaggedTensor: return dense tensors"),
        ([(PREDICT, MASKED)], {}, r"prepare returns 'x' of shape \(None, 2\), which may change from step to step"),
        ([("(RecipeParams)", "")], {}, "Line.Params must derive from RecipeParams of tapeline.recipe"),
        ([(PREDICT, PREPARE)], {}, "^prepare returns nothing: return the batch, such as"),
        (
            [(PREDICT, BY_ITSELF)],
            {"gradients": {"optimizer": {"clip_norm": 1.0}}},
            "^train.gradients names optimizer, which train_step applies itself: call self.update",
        ),
        (
            [("self.optimizer = ", "self.opt = self.optimizer = ")],
            {"gradients": {"opt": {"clip_norm": 1.0}, "optimizer": {"clip_norm": 1.0}}},
            "^train.gradients names opt and optimizer, which are one optimizer: name it once$",
        ),
    ],
)
def test_a_mistake_is_refused_before_the_first_step(run, mode, edits, settings, said):
    wrong = run(*edits, compile=mode, **settings)
    with pytest.raises(InputError, match=said) as refusal:
        wrong()
    assert "\n" not in str(refusal.value)
    assert not wrong.saved() and not wrong.out.exists()


@pytest.mark.first(2)
@pytest.mark.parametrize(
    "defined",
    [
        *("batch_size = 32", "def features(self): pass", "def params(self): pass", "updated = ()"),
        *("def _apply(self): pass", "@property\n    def _names(self): pass"),
    ],
)
def test_a_name_that_every_recipe_has_is_refused(run, defined):
    name = defined.split("def ")[-1].replace("(", " ").split()[0]
    with pytest.raises(InputError, match=f": Line defines {name}, which every recipe has from Tapeline: rename it$"):
        run(("    def build(self):", f"    {defined}\n\n    def build(self):"))()


def test_the_name_in_the_history_is_the_metrics_other_name(run):
    plain = run(best={"metric": "loss", "mode": "min"})().outs()
    other = run(best={"metric": "val_loss", "mode": "min"})().outs()
    assert {name: plain[name] == other[name] for name in plain} == {name: name != "run.json" for name in plain}


def test_a_metric_of_evaluate_may_be_best_and_a_wrong_one_is_no_mistake_of_the_recipe(run):
    evaluate = "    def evaluate(self, data):\n        return {'worst': 1.0}\n\n" + PREDICT
    run((PREDICT, evaluate), best={"metric": "worst", "mode": "min"})()
    with pytest.raises(InputError, match="^train.best.metric is 'worts': the metrics of a validation are loss, worst$"):
        run((PREDICT, evaluate), best={"metric": "worts", "mode": "min"})()


@pytest.mark.parametrize("mode", ["graph", "eager"])
def test_keras_own_reason_is_said(run, mode):
    wrong = run(('batch["x"], training', 'batch["x"][:, :1], training'), compile=mode)
    with pytest.raises(InputError) as refusal:
        wrong()
    said = str(refusal.value)
    assert "expected" in said and "(8, 1)" in said and "\n" not in said and "\x1b" not in said, said
    assert "Exception encountered" not in said


def test_the_reason_of_an_operation_that_fails_is_said(run):
    wrong = run(('self.model(batch["x"], training', 'self.model(tf.gather(batch["x"], [99]), training'))
    with pytest.raises(
        RunError, match=r"recipe.py, line \d+ fails in a step: InvalidArgumentError: indices\[0\] = 99 is"
    ):
        wrong()
