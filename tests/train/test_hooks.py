"""A recipe's own hooks: told in order, heard between loops, refused where they would change what is trained."""

import signal
import subprocess
import sys

import datasets
import pytest
import recipes
from projects import write_params
from trainings import Crash, Lengths, Run, crash_after, outs
from waiting import until

from tapeline.runtime.errors import InputError, LimitReached, RunError

HOOKED = (
    recipes.LINE.replace("import keras, tensorflow as tf", "import keras, sys, tensorflow as tf")
    .replace("RecipeParams, Supervised, field", "LoopEnded, RecipeParams, Started, Stop, Supervised, Validated, field")
    .replace(
        "    def predict(",
        """    def hooks(self):
        return [self.look]

    def look(self, record):
        BODY

    def predict(""",
    )
)
"""A recipe with one hook, whose body each test writes."""

LOGGED = """if isinstance(record, (Started, LoopEnded, Validated)):
            with open(r"LOG", "a") as log:
                print(type(record).__name__, record.step, file=log)"""


@pytest.fixture
def hooked(tmp_path, tf):
    """Return a function that makes a run of a recipe with a hook: five steps an epoch, and a validation split."""
    data = datasets.points(tmp_path / "points").folder

    def make(body, *edits, name="run", **settings):
        folder = tmp_path / name
        recipe = recipes.write(folder, HOOKED.replace("BODY", body), *edits)
        return Run(folder, recipe, data, **{"epochs": 2, "batch_size": 8, **settings})

    return make


def line_of(run, text):
    return next(n for n, line in enumerate(run.recipe.read_text().splitlines(), 1) if text in line)


def test_a_hook_is_told_what_happens_and_changes_no_byte(tmp_path, hooked):
    log = tmp_path / "log"
    run = hooked(LOGGED.replace("LOG", str(log)))(pace=Lengths(3, 100))
    assert log.read_text().splitlines() == [
        *["Started 0", "LoopEnded 3", "Validated 5", "LoopEnded 5", "LoopEnded 8", "Validated 10", "LoopEnded 10"]
    ]
    plain = hooked("pass", ("        return [self.look]", "        return []"), name="plain")()
    assert run.outs() == plain.outs()


EVERY = """class Every:
    def next_stop(self, step):
        return STOP

    def __call__(self, record):
        if isinstance(record, LoopEnded):
            with open(r"LOG", "a") as log:
                print(record.step, file=log)


class Line("""


def every(stop, log):
    """Return the edits that give the recipe a hook with a next stop."""
    kind = EVERY.replace("STOP", stop).replace("LOG", str(log))
    return ("class Line(", kind), ("return [self.look]", "return [Every()]")


def test_a_hook_says_where_it_is_called(tmp_path, hooked):
    log = tmp_path / "log"
    hooked("pass", *every("step - step % 4 + 4", log))(pace=Lengths(100))
    assert log.read_text().split() == ["4", "5", "8", "10"]


@pytest.mark.first(2)
@pytest.mark.parametrize("stop", ["step", "0", "'soon'", "True", "None", "step + 0.5"])
def test_a_next_stop_that_is_no_later_step_is_refused_by_name(tmp_path, hooked, stop):
    run = hooked("pass", *every(stop, tmp_path / "log"))
    with pytest.raises(RunError, match=r"hook Every has .* as the next stop after step 0: return a later step$"):
        run()


def test_a_hook_that_fails_is_named_with_its_line_and_loses_nothing(hooked):
    run = hooked("if isinstance(record, LoopEnded) and record.step == 5: raise ValueError('odd')")
    with pytest.raises(RunError) as failed:
        run(pace=Lengths(5))
    line = line_of(run, "'odd'")
    assert str(failed.value) == f"recipe {run.recipe}, line {line} fails in hook Line.look: ValueError: odd"
    assert [path.name for path in run.saved()] == ["step-000000000005"] and not run.out.exists()
    assert failed.value.status == 1


@pytest.mark.first(2)
@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("sys.exit(0)", "hook Line.look calls sys.exit: raise tapeline.recipe.Stop to end a run"),
        ("self.statistics['nothing']", "fails in hook Line.look: dataset .* has no feature .nothing."),
        ("open('nothing')", "fails in hook Line.look: FileNotFoundError: "),
        ("raise OSError(28, 'No space left on device')", "fails in hook Line.look: .*No space left on device"),
    ],
)
def test_no_hook_leaves_without_a_checkpoint(hooked, body, said):
    run = hooked(f"if isinstance(record, LoopEnded) and record.step >= 5: {body}")
    with pytest.raises(RunError, match=said):
        run(pace=Lengths(5))
    assert [path.name for path in run.saved()] == ["step-000000000005"] and not run.out.exists()


CHANGES = {
    "weights": "self.model.layers[0].kernel.assign(tf.zeros([2, 1]))",
    "optimizer": "self.optimizer.learning_rate.assign(0.5)",
    "iterations": "self.optimizer.iterations.assign_add(1)",
}


@pytest.mark.first(1)
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("mode", ["graph", *(pytest.param(mode, marks=pytest.mark.slow) for mode in ("xla", "eager"))])
def test_a_hook_that_writes_to_a_variable_is_refused_by_name_and_undone(hooked, change, mode):
    body = f"if isinstance(record, LoopEnded) and record.step == 5:\n            {change}"
    run = hooked(body, compile=mode)
    with pytest.raises(RunError, match=r"hook Line\.look changes \w+/.*: a hook may only observe, because"):
        run(pace=Lengths(5))
    (saved,) = run.saved()
    whole = hooked("pass", name="whole", compile=mode, checkpoint={"every_steps": 5})
    with pytest.raises(Crash):
        whole(hooks=[crash_after(5)], pace=Lengths(5))
    assert bundle(saved) == bundle(whole.saved()[0])


def bundle(folder):
    import tensorflow as tf

    prefix = next(folder.glob("*.index")).with_suffix("")
    stored = tf.train.load_checkpoint(str(prefix))
    return {name: stored.get_tensor(name).tobytes() for name in stored.get_variable_to_shape_map()}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int4"])
def test_values_whose_bytes_have_no_address_are_compared(tf, dtype):
    from tapeline.train import hooks

    one, same, other = (tf.cast(tf.constant([1, value]), dtype) for value in (2, 2, 3))
    assert not hooks._differ(one, one) and not hooks._differ(one, same) and hooks._differ(one, other)


def test_what_writes_the_same_bytes_changes_nothing(hooked):
    hooked("self.model.layers[0].kernel.assign(self.model.layers[0].kernel)")()


@pytest.mark.first(1)
@pytest.mark.parametrize("settings", [{"compile": "eager"}, {"compile": "graph"}], ids=["eager", "evaluate"])
def test_python_state_that_is_read_later_is_not_a_hooks_to_change(hooked, settings):
    """In eager mode the steps read it, and where there is an `evaluate`, it does."""
    reads = "    def evaluate(self, data):\n        return {'seen': self.seen}\n\n    def hooks(self):"
    edits = [("    def hooks(self):", reads)] if settings["compile"] == "graph" else []
    run = hooked("self.seen += 1", ("    def build(self):", "    seen = 0\n\n    def build(self):"), *edits, **settings)
    with pytest.raises(
        RunError, match=r"hook Line\.look changes (self|Line)\.seen \(.*keep a hook's state in the hook$"
    ):
        run()


READ = """import functools
from keras_of_hook import scaled
RATE = 1.0

def halved():
    return RATE / 2

class Helper:
    rate = 1.0


class Line(Supervised):
    begun = 1.0

    @tf.function
    def graphed(self):
        return self.tau * tf.constant(1.0)

    @functools.lru_cache
    def remembered(self):
        return self.tau
"""


@pytest.mark.first(3)
@pytest.mark.parametrize(
    ("body", "read", "said"),
    [
        ("self._tau *= 0.5", "self._tau", "self._tau (1.0 → 0.5)"),
        ("global RATE; RATE = 0.5", "halved()", "RATE (1.0 → 0.5)"),
        ("self.begun *= 0.5", "self.begun", "self.begun (1.0 → 0.5)"),
        ("self.rates['tau'] = 0.5", "self.rates['tau']", "self.rates['tau'] (1.0 → 0.5)"),
        ("self.helper.rate *= 0.5", "self.helper.rate", "self.helper.rate (1.0 → 0.5)"),
        ("self.model.layers[0].rate = 0.5", "1.0", "self.model.dropout.rate (0.2 → 0.5)"),
        ("self.tau = 0.5", "self.by()", "self.tau (1.0 → 0.5)"),
        ("self.tau = 0.5", "self.graphed()", "self.tau (1.0 → 0.5)"),
        ("self.tau = 0.5", "self.remembered()", "self.tau (1.0 → 0.5)"),
        ("self.tau = 0.5", "scaled(self)", "self.tau (1.0 → 0.5)"),
    ],
)
def test_what_a_compiled_step_has_read_is_not_a_hooks_to_change(hooked, tmp_path, monkeypatch, body, read, said):
    """It would have no effect."""
    helpers = tmp_path / "helpers"
    helpers.mkdir()
    (helpers / "keras_of_hook.py").write_text(
        "import further_of_hook\ndef scaled(r): return further_of_hook.scaled(r)\n"
    )
    (helpers / "further_of_hook.py").write_text("def scaled(recipe): return recipe.tau\n")
    monkeypatch.syspath_prepend(helpers)
    for name in ("keras_of_hook", "further_of_hook"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    built = "self.tau = self._tau = 1.0; self.rates = {'tau': 1.0}; self.helper, self.by = Helper(), lambda: self.tau"
    run = hooked(
        body,
        ("class Line(Supervised):\n", READ),
        ("    def build(self):", f"    def build(self):\n        {built}"),
        ("keras.layers.Dense(1)", "keras.layers.Dropout(0.2), keras.layers.Dense(1)"),
        ("tf.reduce_mean(tf.square(", f"{read} * tf.reduce_mean(tf.square("),
    )
    run.needs = helpers
    with pytest.raises(RunError) as refused:
        run()
    assert f"hook Line.look changes {said}: a hook may only observe" in str(refused.value)
    assert str(refused.value).endswith("keep a hook's state in the hook")


def test_beside_a_compiled_step_a_hook_keeps_what_it_likes(hooked):
    """In the recipe, under names that the step does not use, and in an object that `build` has made."""
    kept = """@functools.wraps(print)
def printed(*given): pass

class Settings(dict):
    __getattr__ = dict.__getitem__

class Patience:
    def __eq__(self, other): raise ValueError("not to be compared")
    def __init__(self):
        self.waited, self.log = 0, []

    def __call__(self, record):
        self.waited += 1
        self.log.append(record)


class Line("""
    body = "self.best, self.calls = 1.0, self.calls + 1; self.log.append(record); self.newest = record"
    built = "self.best, self.log, self.numbers, self.patience = 0.0, [], iter(()), Patience()\n"
    built += "        self.settings = Settings(rate=0.1)"
    run = hooked(
        f"{body}\n        self.model.predict(tf.zeros([1, 2]), verbose=0)",
        ("class Line(", kept),
        ("    def build(self):", f"    calls = 0\n\n    def build(self):\n        {built}"),
        ("[self.look]", "[functools.partial(self.look), self.patience]"),
        ("import keras,", "import functools, keras,"),
    )()
    assert run.outs() == hooked("pass", name="plain")().outs()


def test_a_build_that_is_no_plain_function(hooked):
    decorator = """class Timed:
    def __init__(self, function): self.function = function
    def __get__(self, recipe, kind=None): return functools.partial(self.function, recipe)


class Line("""
    run = hooked(
        "pass",
        ("class Line(", decorator),
        ("    def build(self):", "    @Timed\n    def build(self):"),
        ("import keras,", "import functools, keras,"),
    )()
    assert run.outs() == hooked("pass", name="plain")().outs()


def test_a_hook_asks_a_model_of_a_class_of_its_own(hooked):
    """Keras sets private attributes of a model when it first predicts."""
    own = """class Net(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)

    def call(self, x):
        return self.dense(x)


class Line("""
    edits = (
        ("class Line(", own),
        ("    def build(self):", "    def build(self):\n        self.net = Net(); self.net(tf.zeros([1, 2]))"),
    )
    run = hooked("self.net.predict(tf.zeros([1, 2]), verbose=0)", *edits)()
    assert run.outs() == hooked("pass", *edits, name="plain")().outs()


def test_a_hook_ends_a_run_with_a_checkpoint_and_no_output(hooked):
    run = hooked("if isinstance(record, LoopEnded) and record.step >= 5: raise Stop('the loss is too high')")
    with pytest.raises(LimitReached) as ended:
        run(pace=Lengths(5))
    assert str(ended.value) == (
        f"recipe {run.recipe}: hook Line.look ends the run at step 5: the loss is too high; "
        f"its checkpoint is saved: run again to resume"
    )
    assert [path.name for path in run.saved()] == ["step-000000000005"] and not run.out.exists()


STATEFUL = """class Count:
    def __init__(self):
        self.epochs = 0

    def __call__(self, record):
        if isinstance(record, Started):
            self.epochs = len(record.history)
        elif isinstance(record, Validated):
            self.epochs += 1
            with open(r"LOG", "a") as log:
                print(record.step, self.epochs, file=log)


class Line("""


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["graph", pytest.param("eager", marks=pytest.mark.slow)])
def test_a_resumed_hook_knows_the_run_before_and_the_bytes_are_the_same(tmp_path, hooked, mode):
    log = tmp_path / "log"
    edits = ("class Line(", STATEFUL.replace("LOG", str(log))), ("return [self.look]", "return [Count()]")
    settings = {"epochs": 4, "compile": mode, "checkpoint": {"every_steps": 5}}
    whole = hooked("pass", *edits, name="whole", **settings)(pace=Lengths(5))
    assert log.read_text().splitlines() == ["5 1", "10 2", "15 3", "20 4"]
    log.unlink()
    cut = hooked("pass", *edits, name="cut", **settings)
    with pytest.raises(Crash):
        cut(hooks=[crash_after(10)], pace=Lengths(5))
    cut(pace=Lengths(3))
    assert log.read_text().splitlines()[-2:] == ["15 3", "20 4"]
    assert cut.outs() == whole.outs()


@pytest.mark.first(2)
@pytest.mark.parametrize(
    ("returned", "said"),
    [
        ("pass", "hooks returns nothing: return a list of callables"),
        ("return self.look", "hooks returns a method: return a list of callables"),
        ("return [3]", "hooks returns 3, which cannot be called with a record"),
        ("return [Stop]", "hooks returns <class .*Stop'>, which cannot be called with a record"),
        ("return [self.nothing]", "line \\d+ fails in hooks: AttributeError: .*nothing"),
        (
            "self.model.layers[0].kernel.assign(tf.zeros([2, 1])); return []",
            "hooks changes model/.*: a hook may only observe",
        ),
    ],
)
def test_what_is_no_hook_is_refused_before_the_first_step(hooked, returned, said):
    run = hooked("pass", ("return [self.look]", returned))
    with pytest.raises((InputError, RunError), match=said):
        run()
    assert not run.saved() and not run.out.exists()


def test_an_attribute_called_hooks_is_named(tmp_path, hooked):
    run = hooked("pass", ("        self.model = ", "        self.hooks = []\n        self.model = "))
    with pytest.raises(
        InputError, match="self.hooks is a list, but every recipe has a method .*: rename the attribute"
    ):
        run()


@pytest.fixture
def project(tmp_path):
    """Return a function that writes a project with a hook in its recipe; and one that starts `tapeline train long`."""

    def make(name, body):
        folder = tmp_path / name
        datasets.points(folder / "data" / "points", examples=64)
        recipes.write(folder, HOOKED.replace("BODY", body))
        write_params(folder, epochs=100, batch_size=8, checkpoint={"every_steps": 1})
        return folder

    started = []

    def start(folder):
        command = [sys.executable, "-m", "tapeline", "train", "long"]
        started.append(subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True))
        return started[-1]

    yield make, start
    for process in started:
        if process.poll() is None:
            process.kill()
            process.communicate()


@pytest.mark.slow
def test_after_sigkill_a_run_with_a_hook_has_the_bytes_of_an_uninterrupted_one(project):
    make, start = project
    body = LOGGED.replace('r"LOG"', '"log"')
    whole, cut = make("whole", body), make("cut", body)
    process = start(whole)
    said = process.communicate(timeout=300)[1]
    assert process.returncode == 0, said
    process = start(cut)  # 800 steps are to come when its first checkpoint is on disk
    until(lambda: any((cut / ".tapeline/checkpoints").glob("*/*/step-*")), limit=120, process=process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not (cut / "runs").exists()
    process = start(cut)
    said = process.communicate(timeout=300)[1]
    assert process.returncode == 0 and "resuming from step " in said, said
    assert outs(cut, "long") == outs(whole, "long")


@pytest.mark.slow
def test_a_signal_is_obeyed_while_a_hook_takes_its_time(project):
    """The hook sleeps for longer than this test may last."""
    make, start = project
    sleep = """if isinstance(record, LoopEnded) and record.step > 50:
            open("asleep", "x").close()
            __import__("time").sleep(1000)"""
    folder = make("slow", sleep)
    process = start(folder)
    until((folder / "asleep").exists, limit=120, process=process)
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 143 and "its checkpoint is saved: run again to resume" in said, said
    assert not (folder / "runs").exists()
