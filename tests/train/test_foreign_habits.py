"""What people bring along from `fit` and from scripts, and what Tapeline says to it before the first step."""

import datasets
import pytest
import recipes
from trainings import Run

from tapeline.runtime.errors import InputError, TapelineError

STEP = "    def predict(self"
SERVED = 'return {"y": self.model(inputs["x"], training=False)}'


@pytest.fixture
def refused(tmp_path, tf):
    """Return a function: edits of a line's recipe → what training says to it."""
    data = datasets.points(tmp_path / "points").folder

    def call(*edits):
        run = Run(tmp_path / "run", recipes.write(tmp_path, recipes.LINE, *edits), data, epochs=1, batch_size=8)
        run.expect = lambda found: None
        with pytest.raises(InputError) as said:
            run()
        return str(said.value)

    return call


@pytest.mark.first(4)
@pytest.mark.parametrize(
    ("method", "said"),
    [
        ("train_step(self, data)", "Line.train_step must take (self, batch, context), but takes (self, data)"),
        ("eval_step(self, batch)", "Line.eval_step must take (self, batch, context), but takes (self, batch)"),
        ("prepare(self, batch)", "Line.prepare must take (self, batch, context), but takes (self, batch)"),
        ("build(self, input_shape)", "Line.build must take (self), but takes (self, input_shape)"),
        ("evaluate(self)", "Line.evaluate must take (self, data), but takes (self)"),
        ("__init__(self)", "Line.__init__ must take (self, params, features, statistics), but takes (self)"),
    ],
)
def test_a_method_of_another_signature_is_named_with_its_line(refused, method, said):
    assert refused((STEP, f"    def {method}:\n        pass\n\n{STEP}")).endswith(f"recipe.py, line 18: {said}")


def test_the_loss_of_keras_is_no_loss_of_a_recipe(refused):
    said = refused(("loss(self, batch, *, training)", "loss(self, y_true, y_pred)"))
    assert said.endswith("line 15: Line.loss must take (self, batch, training), but takes (self, y_true, y_pred)")


@pytest.mark.parametrize("where", ["file", "build"])
@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "keras.mixed_precision.set_global_policy('mixed_bfloat16')",
            "sets Keras' global dtype policy to mixed_bfloat16: set train.precision instead",
        ),
        ("keras.backend.set_floatx('float64')", "sets Keras' floatx to float64: give the layers a dtype instead"),
        (
            "tf.config.run_functions_eagerly(True)",
            "sets tf.config.run_functions_eagerly to True: set train.compile to eager instead",
        ),
    ],
)
def test_a_setting_of_the_whole_process_is_refused_and_set_back(refused, tf, line, said, where):
    import keras

    above = "class Line(Supervised)" if where == "file" else "        self.model = keras.Sequential"
    assert refused((above, f"{'' if where == 'file' else '        '}{line}\n{above}")).endswith(said)
    assert keras.config.dtype_policy().name == keras.config.floatx() == "float32"
    assert not tf.config.functions_run_eagerly()


def test_several_settings_are_all_set_back(refused, tf):
    import keras

    lines = "keras.backend.set_floatx('float64'); tf.config.run_functions_eagerly(True)"
    above = "        self.model = keras.Sequential"
    assert refused((above, f"        {lines}\n{above}")).endswith("give the layers a dtype instead")
    assert keras.config.floatx() == "float32" and not tf.config.functions_run_eagerly()
    assert "does not build: ZeroDivisionError" in refused((above, f"        {lines}; 1 / 0\n{above}"))
    assert keras.config.floatx() == "float32" and not tf.config.functions_run_eagerly()


@pytest.mark.first(3)
@pytest.mark.parametrize(
    ("model", "served", "said"),
    [
        (
            "",
            'return {"y": self.model(inputs["x"] + tf.random.normal([2]))}',
            "draws random numbers by RandomStandardN",
        ),
        (
            "self.drawn = tf.random.Generator.from_seed(1)",
            'return {"y": self.model(inputs["x"] + self.drawn.normal([2]))}',
            "draws random numbers by RngReadAndSkip",
        ),
        (
            "",
            'return {"y": self.model(inputs["x"] + keras.random.normal([2]))}',
            "changes a variable by AssignVariable",
        ),
        (
            "self.model = keras.Sequential([self.model, keras.layers.Dropout(0.5)])",
            'return {"y": self.model(inputs["x"], training=True)}',
            "changes a variable by AssignVariable",
        ),
        (
            "self.model = keras.Sequential([self.model, keras.layers.BatchNormalization()])",
            'return {"y": self.model(inputs["x"], training=True)}',
            "changes a variable by AssignVariable",
        ),
        ("", 'return {"y": tf.numpy_function(lambda x: x[:, :1], [inputs["x"]], tf.float32)}', "calls Python by"),
        ("", 'return {"y": self.model(inputs["x"]) + tf.cast(tf.timestamp(), tf.float32)}', "reads the clock by Times"),
        (
            "",
            'tf.print(inputs["x"]); return {"y": self.model(inputs["x"])}',
            "uses PrintV2 (PrintV2), which no exported",
        ),
        (
            "",
            'return {"y": self.model(inputs["x"]) + tf.strings.to_number(tf.io.read_file("scale.txt"))}',
            "uses ReadFile (ReadFile), which no exported model may run",
        ),
        (
            "self.seen = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, 0.0)",
            "self.seen.insert([tf.size(inputs['x'], tf.int64)], [1.0]); return {'y': self.model(inputs['x'])}",
            "changes a lookup table by ",
        ),
    ],
    ids=["random", "generator", "keras.random", "dropout", "moments", "python", "clock", "print", "file", "table"],
)
def test_predict_depends_on_its_inputs_alone(refused, model, served, said):
    edits = [(SERVED, served)]
    if "numpy_function" in served:
        edits = [
            (
                SERVED,
                served.replace("return ", "y = ").replace('{"y": ', "").rstrip("}")
                + "\n        return {'y': tf.ensure_shape(y, (None, 1))}",
            )
        ]
    made = "        self.optimizer = "
    found = refused((made, f"        {model}\n{made}"), *edits)
    assert "Line: predict " in found and said in found


@pytest.mark.parametrize(
    ("returned", "what", "way"),
    [
        ("(tf.reduce_sum(losses), tf.size(losses))", "a tuple", "do not average over the batch"),
        ("tf.reduce_mean(losses)", "a loss of shape ()", "do not average over the batch"),
        ("losses[:, None]", "a loss of shape (8, 1)", "average it over all axes but the first"),
    ],
)
def test_a_loss_is_one_number_per_example(refused, returned, what, way):
    """As objective, a pair of a sum and a count would be averaged."""
    edit = ("return tf.reduce_mean(tf.square(", "losses = tf.reduce_mean(tf.square(")
    said = refused(edit, ("training=training)), -1), {}", f"training=training)), -1)\n        return {returned}, {{}}"))
    assert f"Line.loss returns {what}: return one loss per example, shape (batch,): {way}" in said


def test_a_model_that_is_frozen_as_a_whole_is_not_trained(refused):
    said = refused(("        self.optimizer", "        self.model.trainable = False\n        self.optimizer"))
    assert "update got no variables: nothing would be trained" in said


ANNEALED = "(tf.cast(self.optimizer.iterations, tf.float32) + 1.0)"


def test_what_reads_an_optimizer_is_not_measured(refused):
    """Validate has the weights alone, so its loss was another one, without a word."""
    said = refused(("training=training)), -1), {}", f"training=training)), -1) * {ANNEALED}, {{}}"))
    assert "eval_step reads optimizer/" in said and "validate would compute with its first value" in said
    said = refused((SERVED, SERVED.replace('["x"]', f'["x"] * {ANNEALED}')))
    assert "Line: predict reads optimizer/" in said and "read it only where `training` is true" in said
    evaluate = "    def evaluate(self, data):\n        return {'steps': float(self.optimizer.iterations)}\n\n"
    assert "Line.evaluate uses self.optimizer, which only training has" in refused((STEP, evaluate + STEP))


@pytest.mark.parametrize(("mode", "lines"), [("xla", "16, 17"), ("graph", "")])
def test_assertions_that_xla_leaves_out_are_said(tmp_path, tf, mode, lines):
    """Those of the recipe: TensorFlow's own, such as of a crop, nobody has written to be checked."""
    checks = """        tf.debugging.assert_less(batch["x"], 1e9)
        x = tf.debugging.check_numerics(batch["x"], "not finite")
        tf.image.crop_to_bounding_box(tf.zeros([8, 8, 1]), 0, 0, tf.size(x) // 8, 2)
"""
    loss = "        return tf.reduce_mean"
    path = recipes.write(tmp_path, recipes.LINE, (loss, checks + loss))
    run = Run(tmp_path / "run", path, datasets.points(tmp_path / "points").folder, epochs=1, batch_size=8, compile=mode)
    run()
    said = [note for note in run.notes if "assertions" in note]
    assert said == [
        f"under `compile: xla` the assertions in line {lines} are not checked; `compile: graph` checks them"
    ] * (mode == "xla")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "tf.debugging.assert_less(batch['x'], -1e9, message='too large')",
            "fails in prepare: InvalidArgumentError: assertion failed: [too large] [Condition x < y did not hold",
        ),
        (
            "tf.numpy_function(lambda x: int('many'), [batch['x']], tf.int64, stateful=False)",
            "fails in prepare: ValueError: invalid literal for int() with base 10: 'many'",
        ),
    ],
)
def test_what_fails_in_prepare_is_said_without_tf_data_s_words(tmp_path, tf, line, said):
    prepare = f"    def prepare(self, batch, context):\n        seen = {line}\n"
    kept = "batch" if "assert" in line else "{**batch, 'seen': tf.ensure_shape(seen, [])}"
    path = recipes.write(tmp_path, recipes.LINE, (STEP, f"{prepare}        return {kept}\n\n{STEP}"))
    run = Run(tmp_path / "run", path, datasets.points(tmp_path / "points").folder, epochs=1, batch_size=8)
    with pytest.raises(TapelineError) as told:
        run()
    assert said in str(told.value) and "function_node" not in str(told.value)


def test_a_teacher_is_one_signature_of_a_saved_model(tmp_path, tf):
    """Kept without the model: TensorFlow then said that variables had been deleted."""
    teacher = tf.Module()
    teacher.w = tf.Variable([[1.0], [2.0]])
    call = tf.function(lambda x: {"y": x @ teacher.w}, input_signature=[tf.TensorSpec((None, 2), name="x")])
    tf.saved_model.save(teacher, str(tmp_path / "teacher"), {"serving_default": call})
    source = recipes.LINE.replace("import RecipeParams,", "import RecipeParams, saved_model,")
    build = f"        self.teach = saved_model({str(tmp_path / 'teacher')!r}).signatures['serving_default']\n"
    path = recipes.write(
        tmp_path,
        source,
        ("        self.optimizer", build + "        self.optimizer"),
        ('batch["y"] - self', 'self.teach(x=batch["x"])["y"] - self'),
    )
    run = Run(tmp_path / "run", path, datasets.points(tmp_path / "points").folder, epochs=1, batch_size=8)
    run.needs = tmp_path / "teacher"
    run()
    assert (run.out / "weights").is_dir()


def test_the_size_of_a_batch_is_unknown_in_build(refused):
    """The other stages build the recipe too; a schedule would silently be as long as with another batch."""
    said = refused(("        self.optimizer", "        self.steps = 640 // self.batch_size\n        self.optimizer"))
    assert "self.batch_size is known in training only" in said


@pytest.mark.parametrize(
    "edit",
    [
        ("training=training)), -1), {}", "training=training)), -1) / self.batch_size, {}"),
        (SERVED, SERVED.replace('["x"]', '["x"] / self.batch_size')),
        (STEP, f"    def evaluate(self, data):\n        return {{'size': self.batch_size}}\n\n{STEP}"),
    ],
)
def test_what_validate_computes_too_does_not_know_the_size_of_a_batch(refused, edit):
    """It was 16 in training's validations and 1 in validate."""
    assert "self.batch_size is known in training only" in refused(edit)


def test_a_number_annealed_by_the_step_is_not_measured(refused):
    """In `eval_step` it was the batch's number: a weight that grows with the step stayed as it was at the first step."""
    anneal = """    def eval_step(self, batch, context):
        weight = tf.minimum(1.0, tf.cast(context.step, tf.float32) / 100.0)
        return {"loss": weight * self.loss(batch, training=False)[0]}

"""
    said = refused((STEP, f"{anneal}{STEP}"))
    assert "context.step is known in training only" in said


def test_prepare_knows_the_size_of_a_batch_while_others_must_not(tmp_path, tf, monkeypatch):
    """tf.data calls it in threads of its own, also while `evaluate` runs."""
    from tapeline.train.data import feed

    monkeypatch.setattr(feed, "CHUNK_STEPS", 2)
    prepare = """    def prepare(self, batch, context):
        size = tf.numpy_function(lambda: np.int64(self.batch_size), [], tf.int64, stateful=False)
        return {**batch, "size": tf.ensure_shape(size, [])}

    def evaluate(self, data):
        time.sleep(0.05)
        return {"examples": len(data["x"])}

"""
    source = recipes.LINE.replace("import keras", "import time\nimport numpy as np\nimport keras")
    path = recipes.write(tmp_path, source, (STEP, prepare + STEP))
    Run(tmp_path / "run", path, datasets.points(tmp_path / "points").folder, epochs=12, batch_size=8)()
