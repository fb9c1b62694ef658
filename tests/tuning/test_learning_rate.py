"""`tapeline lr-find` on real tiny recipes: the rate, the picture, and nothing else."""

from pathlib import Path

import datasets
import pytest
import recipes
from ruamel.yaml import YAML

import tapeline
from tapeline.config.train import TrainSettings


def rate_of(lines):
    return YAML(typ="safe").load(lines[-2])["learning_rate"]


@pytest.mark.parametrize("mode", ["graph", "xla"])
def test_a_line(project, tf, mode):
    """x has unit variance, so the mean squared error's curvature is 2: the best rate is near 0.5, the limit near 1."""
    project.pipeline["train"]["compile"] = mode
    project.save()
    before = project.files()
    status, lines, err = project.call("lr-find", "fit")
    assert (status, err) == (0, "")
    assert 0.05 < rate_of(lines) < 1
    diverged = float(next(line for line in lines if line.endswith("diverged")).split()[0])
    assert 0.5 < diverged < 10
    assert lines[-3] == "for params.yaml, pipelines.fit.params (now 0.1):"
    after = project.files()
    picture = ".tapeline/lr-find/fit.png"
    assert after.pop(picture) and after.pop(".tapeline/.gitignore")
    assert after == before
    assert (project.folder / picture).read_bytes().startswith(b"\x89PNG")
    assert lines[-1] == f"picture: {project.folder / picture}"


def test_the_weights_of_init_from_are_those_that_the_rate_is_for(project, tf):
    """Of random weights the first loss is below 20."""
    from tapeline.recipe import bundles

    kernel, bias = tf.constant([[31.0], [-19.0]]), tf.constant([0.0])
    given = {"model/sequential/dense/kernel": kernel, "model/sequential/dense/bias": bias}
    bundles.write(project.folder / "given" / bundles.WEIGHTS, given)
    project.pipeline["train"]["init_from"] = "given"
    project.save()
    status, lines, err = project.call("lr-find", "fit")
    assert (status, err) == (0, "")
    assert lines[1] == f"took 2 of 2 weights from {project.folder / 'given'}"
    rate, loss = lines[3].split()
    assert rate == "1.0e-06" and 500 < float(loss) < 3000
    project.pipeline["train"]["init_from"] = "gone"
    project.save()
    status, lines, err = project.call("lr-find", "fit")
    assert (status, lines) == (2, []) and "train.init_from is 'gone': neither a folder" in err


@pytest.mark.parametrize(
    ("picture", "why"),
    [
        ("/proc/fit.png", "No such file or directory"),
        ("/dev/full/fit.png", "Not a directory"),
        ("data", "Is a directory"),
    ],
)
def test_a_picture_that_cannot_be_written_is_refused_before_the_steps(project, picture, why):
    project.save()
    before = project.files()
    status, lines, err = project.call("lr-find", "fit", "--picture", picture)
    assert (status, lines) == (2, [])
    assert err == f"tapeline: {picture} cannot be written ({why}): give another file by --picture\n"
    assert project.files() == before


def test_a_picture_that_cannot_be_written_after_the_steps_costs_no_suggestion(project, tf):
    from tapeline.tuning.learning_rate import Range, find

    project.save()
    settings = TrainSettings(epochs=1, batch_size=8)
    place, data, said = project.folder / "pictures", project.folder / "data" / "points", []
    given = {"recipe": project.folder / "recipe.py", "params": {}, "settings": settings, "data": data}
    lines = find("fit", **given, tried=Range(), picture=place / "fit.png")
    said.append(next(lines))
    place.write_text("in the way")
    with pytest.raises(NotADirectoryError):
        said += lines
    assert YAML(typ="safe").load(said[-1])["learning_rate"] > 0


def test_the_rate_is_the_one_that_was_asked_for(project, tf):
    """The first steps' losses are those of gradient descent by hand, each with its rate."""
    import numpy as np

    from tapeline.tuning.ramp import climb

    project.save()
    data = datasets.points(project.folder / "all", examples=64)
    settings = TrainSettings(epochs=1, batch_size=64)
    tried = {"low": 1e-3, "high": 0.1, "steps": 20, "metric": None}
    curve = climb(project.folder / "recipe.py", {}, settings, data, **tried)
    assert curve.rates == pytest.approx(1e-3 * 100 ** (np.arange(20) / 19))

    from tapeline.recipe import loading

    built = loading.build(project.folder / "recipe.py", {}, data.features)
    x, y = (np.array(data.column("train", name), np.float64) for name in ("x", "y"))
    weight, bias = (variable.numpy().astype(np.float64) for variable in built.model.trainable_variables)
    losses = []
    for rate in curve.rates:
        error = x @ weight + bias - y
        losses.append(float((error**2).mean()))
        weight, bias = weight - rate * 2 * x.T @ error / 64, bias - rate * 2 * error.mean(0)
    assert curve.losses == pytest.approx(losses, rel=1e-3)


def test_every_optimizer_climbs_by_the_runs_step(project, tf):
    """Two in a dict, one with a schedule of its own and two updates a step: both follow the ramp over the steps."""
    from tapeline.tuning.ramp import climb

    source = recipes.LINE.replace(
        "self.optimizer = keras.optimizers.SGD(self.params.learning_rate)",
        "schedule = keras.optimizers.schedules.CosineDecay(1.0, 10)\n"
        "        self.twice = {'a': keras.optimizers.SGD(schedule), 'b': keras.optimizers.SGD(0.1)}\n"
        "        self.spy = tf.Variable(tf.zeros([2]), trainable=False)",
    ).replace("    def predict(", STEP + "    def predict(")
    project.save(source)
    data = datasets.points(project.folder / "all", examples=64)
    settings = TrainSettings(epochs=1, batch_size=8)
    tried = {"low": 1e-4, "high": 1e-2, "steps": 21, "metric": "second"}
    curve = climb(project.folder / "recipe.py", {}, settings, data, **tried)
    assert (curve.metric, curve.optimizers) == ("second", ("twice.a", "twice.b"))
    assert curve.losses == pytest.approx(curve.rates, rel=1e-5)
    assert curve.current == 0.1


STEP = """    def train_step(self, batch, context):
        for name in ("a", "a", "b"):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(self.loss(batch, training=True)[0])
            trained = self.model.trainable_variables
            self.update(self.twice[name], trained, tape.gradient(loss, trained))
        rates = [self.twice[name].learning_rate for name in "ab"]
        return {"first": (rates[0], 1.0), "second": (rates[1], 1.0)}

"""


def test_a_recipe_that_nothing_teaches_gets_no_suggestion(project, tf):
    project.save(recipes.LINE, ("tf.square(batch", "0.0 * tf.square(batch"), ("-1), {}", "-1) + 1.0, {}"))
    status, _, err = project.call("lr-find", "fit", "--steps", "40")
    assert status == 1
    assert err.startswith("tapeline: no learning rate from 1e-06 to 10 makes loss fall clearly in 40 steps: ")
    assert (project.folder / ".tapeline/lr-find/fit.png").is_file()


def test_no_parameter_no_optimizer_no_metric(project, tf):
    line = "    class Params(RecipeParams):\n        learning_rate: float = field(0.1, gt=0)\n"
    project.save(recipes.LINE, (line, ""), ("SGD(self.params.learning_rate)", "SGD(0.1)"))
    status, lines, _ = project.call("lr-find", "fit", "--steps", "60", "--picture", "elsewhere/a.png")
    assert status == 0
    assert lines[-2] == "the recipe has no parameter learning_rate: set the rate where it creates its optimizer"
    assert (project.folder / "elsewhere" / "a.png").is_file()
    status, _, err = project.call("lr-find", "fit", "--metric", "accuracy")
    assert (status, err) == (2, "tapeline: --metric is 'accuracy': train_step returns loss\n")
    by_hand = "for v, g in zip(variables, gradients): v.assign_sub(0.1 * g)\n"
    project.save(
        recipes.LINE,
        ("self.optimizer = keras.optimizers.SGD(self.params.learning_rate)", "self.optimizer = None"),
        (
            "    def predict(",
            f"    def update(self, optimizer, variables, gradients):\n        {by_hand}\n    def predict(",
        ),
    )
    status, _, err = project.call("lr-find", "fit")
    assert (status, err) == (2, "tapeline: Line has no Keras optimizer in any attribute, so there is no rate to find\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["lr-find", "fat"], "no pipeline 'fat' in params.yaml; did you mean 'fit'?"),
        (["lr-find", "fit", "--low", "0"], "--low is 0 and --high is 10: 0 < low < high, both finite"),
        (["lr-find", "fit", "--low", "1", "--high", "0.1"], "--low is 1 and --high is 0.1: "),
        (["lr-find", "fit", "--high", "inf"], "--low is 1e-06 and --high is inf: "),
        (["lr-find", "fit", "--high", "nan"], "--low is 1e-06 and --high is nan: "),
        (["lr-find", "fit", "--steps", "3"], "--steps is 3: a range test needs at least 20"),
        (["tune", "fit", "--steps", "1"], "--steps is 1: comparing losses needs at least 2"),
        (["tune", "fit", "--seconds", "0"], "--seconds is 0: it must be a finite number greater than 0"),
        (["tune", "fit"], "data/points/dataset.json is missing: run `tapeline ingest points`"),
    ],
)
def test_bad_input_is_one_line_before_tensorflow(project, tf, monkeypatch, arguments, said):
    from tapeline.runtime import startup

    monkeypatch.setattr(startup, "tensorflow", lambda: pytest.fail("TensorFlow was started"))
    project.save()
    (project.folder / "data/points/dataset.json").unlink()
    status, lines, err = project.call(*arguments)
    assert (status, lines) == (2, [])
    assert len(err.splitlines()) == 1
    assert said in err
    assert not (project.folder / ".tapeline").exists()


def test_the_command_line_takes_both_without_tensorflow():
    import subprocess
    import sys

    program = (
        "import sys\nfrom tapeline.tuning import learning_rate, modes\nfrom tapeline.cli.main import main\n"
        "assert not {'tensorflow', 'keras', 'matplotlib'} & set(sys.modules)"
    )
    src = str(Path(tapeline.__file__).parents[1])
    subprocess.run([sys.executable, "-c", program], env={"PYTHONPATH": src}, check=True)
