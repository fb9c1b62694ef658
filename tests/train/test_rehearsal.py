"""What the stages after training would refuse is refused before its first step."""

import json

import datasets
import pytest
import recipes
from trainings import Crash, Lengths, Run, crash_after

from tapeline.dataset.columns import Feature
from tapeline.runtime.errors import InputError
from tapeline.train.checks.rehearsal import Rehearsed

PREDICT = '        return {"y": self.model(inputs["x"], training=False)}\n'
Y = Feature((1,), "float32")


def answered(*shape):
    """Return the type of LINE's only output."""
    from tapeline.recipe.predicting import Answer

    return {"y": Answer("float32", shape)}


OTHER = (
    PREDICT
    + """
    def signatures(self):
        spec = tf.TensorSpec((None, 2), tf.float32, name="z")
        return {"serving_default": tf.function(lambda z: self.predict({"x": z}), input_signature=[spec])}
"""
)
LOCAL = (
    PREDICT
    + """
    def signatures(self):
        table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a"], [0.0]), 1.0)
        spec = tf.TensorSpec((None,), tf.string, name="word")
        more = tf.function(lambda word: {"y": table.lookup(word)}, input_signature=[spec])
        return super().signatures() | {"more": more}
"""
)
SIGNATURES = PREDICT + "\n    def signatures(self):\n        return {}\n"


def signature(specs, returned='{"y": tf.zeros((3, 2))}', key="serving_default", arguments="x, *more"):
    """Return an edit of LINE: a signature of its own, beside the default one unless it is that."""
    default = '{"serving_default": tf.function(lambda x: self.predict({"x": x}), input_signature=[X])}'
    made = f"{{{key!r}: tf.function(lambda {arguments}: {returned}, input_signature={specs})}}"
    body = f'        X = tf.TensorSpec((None, 2), tf.float32, name="x")\n        return {default} | {made}\n'
    return PREDICT, f"{PREDICT}\n    def signatures(self):\n{body}"


def spec(shape="(None, 2)", dtype="float32", name='"x"'):
    return f"[tf.TensorSpec({shape}, tf.{dtype}, name={name})]"


def served(body):
    return PREDICT, f"{PREDICT}\n    def served(self, data):\n        {body}\n"


def pictures(body):
    return PREDICT, f"{PREDICT}\n    def pictures(self, data):\n        {body}\n"


def evaluate(body):
    return PREDICT, f"{PREDICT}\n    def evaluate(self, data):\n        {body}\n"


@pytest.fixture
def run(tmp_path, tf):
    data = datasets.points(tmp_path / "points", val=9).folder

    def make(*edits, label="run", **settings):
        recipe = recipes.write(tmp_path, recipes.LINE, *edits)
        made = Run(tmp_path / label, recipe, data, **{"epochs": 2, "batch_size": 8, **settings})
        made.heard = []
        made.expect, made.predicted = made.heard.append, "test"
        return made

    return make


@pytest.mark.parametrize("mode", ["graph", "eager"])
@pytest.mark.parametrize(
    ("edits", "said"),
    [
        ([(PREDICT, "        pass\n")], "^Line: predict returns nothing: return a dict of outputs, such as"),
        ([(PREDICT, '        return self.model(inputs["x"])\n')], "^Line: predict returns no dict: return a dict"),
        ([(PREDICT, "        return {}\n")], "^Line: predict returns a dict without outputs"),
        ([('inputs["x"]', 'inputs["z"]')], r"recipe.py(, line 19)? does not trace in predict: KeyError: 'z'$"),
        (
            [('("x",)', "()")],
            r"^Line.inputs is empty: list the features that predict takes, such as inputs = \('x',\)$",
        ),
        ([(PREDICT, SIGNATURES)], "^Line.signatures has nothing: serving_default is missing$"),
        ([(PREDICT, OTHER)], "^the model takes z, but gets x: return it from `served`$"),
        ([served("return {'z': data['x']}")], "^the model takes x, but gets z: return it from `served`$"),
        ([served("return {'x': data['x'].tolist()}")], "^served returns a list for x: make it a NumPy array$"),
        ([served("return data['x']")], "^served returns a (memmap|ndarray): return a dict from input name"),
        ([served("pass")], "^served returns nothing: return a dict from input name"),
        ([served("return {'x': data['w']}")], r"recipe.py, line 22 fails in served: KeyError: 'w'$"),
        (
            [signature(spec(name="None"))],
            r"^Line: serving_default takes an input without a name: write tf.TensorSpec\(",
        ),
        ([signature(spec(name="'petal-size'"), key="more")], "^Line: more takes 'petal-size', a name that TensorFlow"),
        (
            [signature(spec(name="'from'"), key="more")],
            "^Line: more takes 'from', a name that TensorFlow cannot save",
        ),
        (
            [signature(spec(name="'self'"), key="more")],
            "^Line: more takes 'self', a name that TensorFlow cannot save",
        ),
        ([signature("[X, X]", key="more")], "^Line: more takes x twice: give each input its own name$"),
        ([signature("None", key="more")], "^Line: more has no input signature: make it tf.function"),
        ([signature('[{"x": X}]')], "^Line: serving_default takes a dict: give each input its own tf.TensorSpec"),
        ([signature("[]", arguments="")], "^Line: serving_default takes no input, so validate cannot call it"),
        (
            [signature(spec("None"), key="more")],
            r"^Line: more takes x with any number of axes: fix the number, such as shape=",
        ),
        (
            [signature(spec(dtype="bfloat16"))],
            "^Line: serving_default takes x as bfloat16, which no input file can hold",
        ),
        (
            [signature(spec(dtype="uint8"))],
            "^Line: serving_default takes x as uint8, but gets float32: make both",
        ),
        (
            [signature(spec("(None, 3)"))],
            r"^Line: serving_default takes x of shape \(None, 3\), but gets \(None, 2",
        ),
        ([signature(spec("()"))], r"^Line: serving_default takes x of shape \(\), but gets \(None, 2\): both "),
        (
            [served("return {'x': data['x'].astype('float64')}")],
            "^Line: serving_default takes x as float32, but gets float64: make both the same",
        ),
        ([signature(spec(), "x", "more")], "^Line: more returns no dict: return a dict of outputs"),
        ([signature(spec(), "{0: x}", "more")], "^Line: more returns an output called 0: make its name a string$"),
        ([signature(spec(), "{'y': (x, x)}", "more")], "^Line: more returns a tuple as 'y', which cannot be served"),
        (
            [signature(spec(), "{'y': tf.RaggedTensor.from_tensor(x)}", "more")],
            "^Line: more returns a RaggedTensor as 'y', which cannot be served: return a tensor, such as ragged.to_te",
        ),
        (
            [signature(spec(), "{'y': tf.reshape(x, tf.shape(x)[: tf.shape(x)[0]])}", "more")],
            "^Line: more returns 'y' with an unknown number of axes: set its shape with tf.ensure_shape",
        ),
        ([(PREDICT, LOCAL)], "^Line: more reads a lookup table or another resource, which no attribute of the recipe"),
        (
            [
                ("class Line", "SCALE = tf.Variable(2.0, name='scale')\n\nclass Line"),
                ('"y": self', '"y": SCALE * self'),
            ],
            "^Line: predict reads scale:0, which no attribute of the recipe holds, so that it could not be exported",
        ),
        (
            [(PREDICT, '        return {"y": self.model(inputs["x"]), "t": tf.constant(1.5)}\n')],
            "^Line: predict returns 't' without an axis for the examples: return a value for each, such as tf.fill",
        ),
        (
            [signature(spec("(8, 2)"), '{"y": self.model(x)}')],
            "^Line: serving_default takes x in batches of 8, into which 9 examples do not divide: make",
        ),
        ([evaluate("pass")], "^evaluate returns nothing: return a dict of numbers"),
        ([evaluate("return {'a': data['z']}")], r"recipe.py, line 22 fails in evaluate: KeyError: 'z'$"),
        ([pictures("return {'a': data['z']}")], r"recipe.py, line 22 fails in pictures: KeyError: 'z'$"),
        (
            [pictures("return {'a': data['x']}")],
            r"^pictures returns float32 of shape \(9, 2\) for 'a': it must be uint8",
        ),
    ],
)
def test_a_mistake_after_training_is_refused_before_it(run, mode, edits, said):
    wrong = run(*edits, compile=mode)
    with pytest.raises(InputError, match=said) as refusal:
        wrong()
    assert "\n" not in str(refusal.value)
    assert not wrong.heard and not wrong.saved() and not wrong.out.exists()


@pytest.mark.parametrize(
    "edit",
    [
        signature("[]", '{"y": tf.zeros((3, 2))}', "more", arguments=""),
        signature('[X, tf.TensorSpec((), tf.float32, name="rate")]', '{"y z": x}', "more"),
        signature(spec("(9, 2)"), '{"y": self.model(x)}'),
        signature(spec("(None, None)"), '{"y": self.model(tf.ensure_shape(x, (None, 2)))}'),
    ],
)
def test_what_can_be_exported_is_trained(run, edit):
    assert run(edit, epochs=1)().out.exists()


def test_an_own_served_is_asked_for_all_examples_of_the_split_and_changes_no_byte(run):
    whole = run()().outs()
    asked = run(served("assert len(data['x']) == 9; return {'x': data['x']}"), label="asked")
    assert asked().outs() == whole


PREPARED = "    def prepare(self, batch, context):\n        return {**batch, 'more': batch['y']}\n\n    def loss(self"
GREY = "import numpy as np\n        assert len(data['x']) == 9; return {'grey': np.zeros((2, 2, 1), np.uint8)}"


@pytest.mark.parametrize("mode", ["graph", "eager"])
@pytest.mark.parametrize(
    ("edits", "said"),
    [
        (
            [("    def loss(self", PREPARED), ('square(batch["y"]', 'square(batch["more"]')],
            "does not trace in eval_step: KeyError: 'more'; a batch has x, y$",
        ),
        (
            [("-1), {}", "-1), {} if training else {'rate': self.optimizer.learning_rate * batch['y'][:, 0]}")],
            "^eval_step reads optimizer/.*learning_rate, which only training has",
        ),
        ([evaluate("return {'a': data['z']}")], r"recipe.py, line 22 fails in evaluate: KeyError: 'z'$"),
        ([pictures("return {'a': data['z']}")], r"recipe.py, line 22 fails in pictures: KeyError: 'z'$"),
    ],
)
def test_without_a_validation_split_the_metrics_are_tried_on_what_is_predicted(run, mode, edits, said):
    wrong = unvalidated(run(*edits, compile=mode))
    with pytest.raises(InputError, match=said):
        wrong()
    assert not wrong.heard and not wrong.saved()


def test_trying_metrics_and_pictures_changes_no_byte(run):
    whole = unvalidated(run())().outs()
    late = "return {'worst': 1.0} | ({'late': 1.0} if len(data['x']) > 8 else {})"
    tried = unvalidated(run(evaluate(late), label="tried"))
    assert tried().outs() == whole
    assert tried.heard == [Rehearsed("y", Y, answered(None, 1), {"late", "loss", "worst"})]
    assert unvalidated(run(pictures(GREY), label="drawn"))().outs() == whole


def unvalidated(run):
    """Take the validation split away."""
    index = run.dataset / "dataset.json"
    found = json.loads(index.read_text())
    found["splits"].pop("val", None)
    index.write_text(json.dumps(found))
    return run


def test_what_will_be_answered_and_measured_is_known(run):
    made = run(evaluate("return {'worst': 1.0}"))()
    assert made.heard == [Rehearsed("y", Y, answered(None, 1), {"loss", "worst"})]


def test_it_changes_no_byte_and_a_resumed_run_is_asked_again(run):
    """Thresholds may have changed since; the recipe is built once then, and what it answers was kept."""
    plain, asked = run(), run(label="asked", checkpoint={"every_steps": 5})
    plain.expect = None
    whole = plain().outs()
    with pytest.raises(Crash):
        asked(hooks=[crash_after(5)], pace=Lengths(5))
    assert len(asked.heard) == 1
    assert asked().notes[0].startswith("resuming from step ") and asked.outs() == whole
    assert asked.heard == [Rehearsed("y", Y, answered(None, 1), {"loss"})] * 2


@pytest.mark.slow
def test_what_is_expected_of_a_known_start_is_refused_too(run):
    made = run()()

    def expect(rehearsed):
        raise InputError("no such metric")

    made.expect = expect
    with pytest.raises(InputError, match="^no such metric$"):
        made()
    [record] = made.checkpoints.rglob("answers.json")
    for other in ("{", '{"y": "float32"}'):  # damaged, or an earlier Tapeline's: it is made again
        record.write_text(other)
        with pytest.raises(InputError, match="^no such metric$"):
            made()
    made.expect = made.heard.append
    made()
    assert made.heard[-1].answers == answered(None, 1) and record.read_text() != other


def test_a_best_metric_of_evaluate_that_is_not_measured_is_refused_before_the_first_step(run):
    measures = evaluate("return {'worst': 1.0} | ({'late': 1.0} if len(data['x']) > 8 else {})")
    assert run(measures, best={"metric": "late", "mode": "min"})().out.exists()
    wrong = run(measures, best={"metric": "later", "mode": "min"})
    with pytest.raises(
        InputError, match="^train.best.metric is 'later': the metrics of a validation are late, loss, wo"
    ):
        wrong(fresh=True)
    assert not wrong.saved()


def test_a_metric_that_takes_more_than_a_few_examples_may_be_expected(run):
    measures = evaluate("return {'worst': 1.0} | ({'late': 1.0} if len(data['x']) > 8 else {})")
    made = run(measures)

    def expect(rehearsed):
        if "late" not in rehearsed.measured:
            raise InputError("no late")

    made.expect = expect
    assert made().out.exists()
