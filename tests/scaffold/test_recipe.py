"""`tapeline new recipe`: what it writes, that what it writes trains, what it leaves alone and what it refuses."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import datasets
import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from tapeline.cli.main import main
from tapeline.config.params import Params, check_recipe
from tapeline.config.project import Project
from tapeline.dataset.columns import Dataset
from tapeline.dataset.statistics import TrainStatistics
from tapeline.ingest.stage import ingest
from tapeline.recipe.context import Context
from tapeline.recipe.loading import build
from tapeline.scaffold.init import init
from tapeline.scaffold.learned import known
from tapeline.scaffold.recipe import KINDS


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A project with a dataset for each kind of recipe."""
    folder = tmp_path_factory.mktemp("new") / "a project"
    init(folder, say=lambda line: None)
    rows = [f"{n % 7},{n % 5},{n % 3},{n / 3},{'ab'[n % 2]},2019.1,{n % 4}e-9" for n in range(60)]
    (folder / "data/raw/rows.csv").write_text("a,b,c,y,label,year,mass\n" + "\n".join(rows) + "\n")
    for number in range(12):
        for split in ("train", "test"):
            place = folder / "data/raw/pets" / split / ("cat", "dog")[number % 2]
            place.mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.full((8, 8, 3), number * 20, np.uint8)).save(place / f"{number}.png")
    params = (folder / "params.yaml").read_text()
    common = "source: table, needs: data/raw/rows.csv, test: 0.2, validation: 0.2"
    datasets = (
        f"  rows: {{{common}, features: {{x: [a, b, c], label: label}}, label: label}}\n"
        f"  numbers: {{{common}, features: {{x: [a, b], y: [y]}}}}\n"
        f"  texts: {{{common}, features: {{text: [a, b, c], label: label}}, label: label, integers: [text]}}\n"
        f"  mixed: {{{common}, features: {{x: [a, b], c: c, y: y, label: label}}, label: label, integers: [c]}}\n"
        f"  scalars: {{{common}, features: {{a: a, b: b, y: y}}}}\n"
        f"  whole: {{{common}, features: {{x: [a, b], y: [c]}}, integers: [x, y]}}\n"
        f"  odd: {{{common}, features: {{x: [a, year, mass], label: label}}, label: label}}\n"
        f"  odd-number: {{{common}, features: {{x: [a, year, mass], y: [y]}}}}\n"
        f"  odd-scalars: {{{common}, features: {{a: a, year: year, mass: mass, label: label}}, label: label}}\n"
        f"  odd-scalars-number: {{{common}, features: {{a: a, year: year, mass: mass, y: y}}}}\n"
        "  pets: {source: images, needs: data/raw/pets, size: [8, 8], validation: 0.3}\n"
    )
    (folder / "params.yaml").write_text(params.replace("\npipelines:", f"{datasets}\npipelines:", 1))
    return folder


@pytest.fixture
def project(made, tmp_path, monkeypatch):
    folder = tmp_path / "p"
    subprocess.run(["cp", "-r", str(made), str(folder)], check=True)
    monkeypatch.chdir(folder)
    return folder


DATASETS = {"table": "rows", "number": "numbers", "image": "pets", "text": "texts", "gan": "pets", "own-step": "rows"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "dataset"),
    [
        *((kind, DATASETS[kind]) for kind in KINDS),
        ("own-step", "mixed"),
        ("number", "odd-number"),
        pytest.param("number", "scalars", marks=pytest.mark.long),
        pytest.param("number", "whole", marks=pytest.mark.long),
    ],
)
def test_each_kind_trains_and_is_exported(project, kind, dataset):
    assert main(["new", "recipe", f"a-{kind}", "--like", kind, "--dataset", dataset]) == 0
    params = (project / "params.yaml").read_text()
    params = params.replace("epochs: 20, batch_size: 32", "epochs: 1, batch_size: 4")
    lite = "float32, int8" if KINDS[kind].of_columns else ""
    (project / "params.yaml").write_text(params.replace("export: {}", f"export: {{litert: [{lite}]}}"))
    for stage, name in (
        ("ingest", dataset),
        *((stage, f"a-{kind}") for stage in ("train", "validate", "export")),
    ):
        command = [sys.executable, "-P", "-m", "tapeline", stage, name]
        answer = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
        assert answer.returncode == 0, answer.stderr
    model = project / "models" / f"a-{kind}"
    assert (model / "saved_model").is_dir()
    assert ",".join(sorted(path.stem for path in model.glob("litert/*.tflite"))) == lite.replace(" ", "")


def test_each_kind_is_what_a_formatter_and_a_linter_would_leave(project, tmp_path):
    """A hook that rewrites a recipe before the first commit would make the trained model stale."""
    ruff = Path(sysconfig.get_path("scripts"), "ruff")
    for kind, dataset in [*DATASETS.items(), ("table", "mixed"), ("number", "mixed"), ("own-step", "mixed")]:
        name = f"a-{kind}-of-{dataset}"
        assert main(["new", "recipe", name, "--like", kind, "--dataset", dataset]) == 0
    assert len(list((project / "recipes").iterdir())) == 10
    for command in (["format", "--check"], ["check", "--select", "E4,E7,E9,F,W,I"]):
        answer = subprocess.run(
            [ruff, *command, "--isolated", "--no-cache", "recipes"], capture_output=True, text=True, check=False
        )
        assert answer.returncode == 0, answer.stdout


def test_a_batch_is_no_larger_than_the_train_split_that_was_ingested(project):
    assert main(["ingest", "pets"]) == 0
    assert main(["new", "recipe", "few", "--dataset", "pets"]) == 0
    examples = Dataset.open(project / "data" / "pets").examples("train")
    size = Params.load(project).pipelines["few"].train.batch_size
    assert size <= examples < 2 * size < 32


def test_every_kind_has_parameters_that_its_recipe_declares(project):
    for kind, dataset in DATASETS.items():
        assert main(["new", "recipe", f"a-{kind}", "--like", kind, "--dataset", dataset]) == 0
    params = Params.load(project)
    assert params.pipelines.keys() == {"iris", *(f"a-{kind}" for kind in DATASETS)}
    for name, pipeline in params.pipelines.items():
        check_recipe(project, name, pipeline)


@pytest.mark.parametrize(
    ("arguments", "inputs", "said"),
    [
        (["table", "rows"], '("x",), "label"', ""),
        (["number", "numbers"], '("x",), "y"', ""),
        (["table", "mixed"], '("x", "c", "y"), "label"', ""),
        (["own-step", "mixed"], '("x", "c", "y"), "label"', ""),
        (["number", "mixed"], '("x", "c"), "y"', "ignored: label of datasets.mixed, which"),
        (["number", "scalars"], '("a", "b"), "y"', ""),
        (["text", "mixed"], '("x",), "label"', "ignored: c, y of datasets.mixed, which a recipe for classes of texts"),
        (["image", "pets"], '("image",), "label"', ""),
    ],
)
def test_it_learns_from_all_features_that_fit_and_names_the_others(project, capsys, arguments, inputs, said):
    kind, dataset = arguments
    assert main(["new", "recipe", "second", "--like", kind, "--dataset", dataset]) == 0
    text = (project / "recipes/second.py").read_text()
    assert f"    inputs, target = {inputs}\n" in text
    assert ("self.columns(" in text) == ("c" in inputs.split('"') or "a" in inputs.split('"'))
    out = capsys.readouterr().out
    assert said in out and ("ignored: " in out) == bool(said)
    tidy = [sys.executable, "-P", "-m", "ruff", "format", "--diff", "--isolated", "--line-length=120"]
    subprocess.run([*tidy, "recipes/second.py"], cwd=project, check=True)


def learned(project, kind, dataset):
    """Return a new recipe after 30 steps of all training examples, these, and the losses."""
    assert main(["new", "recipe", "second", "--like", kind, "--dataset", dataset]) == 0
    folder, params = project / "data" / dataset, Params.load(project)
    ingest(dataset, params.dataset(dataset), project=project, out=folder, work=project / ".tapeline/work")
    data = Dataset.open(folder)
    assert known(Project.find(project), dataset, None) == known(Project.find(project), dataset, params.dataset(dataset))
    file, settings = project / "recipes/second.py", params.pipeline("second").params
    recipe = build(file, settings, data.features, statistics=TrainStatistics(data))
    batch = {name: tf.constant(np.array(values)) for name, values in data.columns("train").items()}
    recipe.configure(batch_size=data.examples("train"))
    losses = []
    for step in range(30):
        metrics = recipe.train_step(batch, Context(tf.constant(step, tf.int64), tf.constant([7, 0])))
        assert metrics["loss"].shape == (data.examples("train"),)
        losses.append(float(tf.reduce_mean(metrics["loss"])))
    return recipe, batch, losses


@pytest.mark.first(2)
@pytest.mark.parametrize(
    ("kind", "dataset", "output"),
    [
        ("table", "odd", "probabilities"),
        ("own-step", "odd", "probabilities"),
        ("number", "odd-number", "y"),
        ("table", "odd-scalars", "probabilities"),
        ("own-step", "odd-scalars", "probabilities"),
        ("number", "odd-scalars-number", "y"),
    ],
)
def test_a_constant_column_says_nothing_and_a_small_unit_does(project, kind, dataset, output):
    recipe, batch, _ = learned(project, kind, dataset)
    given = {name: batch[name] for name in recipe.inputs}

    def answers(**more):
        changed = dict(given)
        for place, name in enumerate(("a", "year", "mass")):
            if "x" in given:
                changed["x"] += more.get(name, 0.0) * tf.one_hot(place, 3)
            else:
                changed[name] += more.get(name, 0.0)
        return recipe.predict(changed)[output].numpy()

    assert np.array_equal(answers(year=1.0), answers())
    assert np.abs(answers(mass=1e-9) - answers()).max() > 1e-3


@pytest.mark.parametrize("kind", ["table", "own-step", "number"])
def test_large_whole_numbers_are_told_apart(project, kind):
    """Float32 would have the same number for each of these times."""
    rows = "".join(f"train,{1_700_000_000 + 20 * n},{n}.5,{'ab'[n % 2]}\n" for n in range(8))
    (project / "data/raw/times.csv").write_text(f"split,time,y,label\n{rows}test,1700000050,2.5,a\n")
    features = "{time: time, y: y}" if kind == "number" else "{time: time, label: label}, label: label"
    source = f"source: table, needs: data/raw/times.csv, split: split, features: {features}, integers: [time]"
    add_dataset(project, source)
    recipe, _, _ = learned(project, kind, "own")
    answers = recipe.predict({"time": tf.constant([1_700_000_000, 1_700_000_040, 1_700_000_063], tf.int64)})
    values = answers["y" if kind == "number" else "probabilities"].numpy().reshape(3, -1)
    assert len(np.unique(values, axis=0)) == 3


@pytest.mark.first(1)
@pytest.mark.parametrize(
    ("kind", "dataset", "outputs"),
    [
        ("table", "mixed", {"class": (5,), "probabilities": (5, 2)}),
        ("own-step", "mixed", {"class": (5,), "probabilities": (5, 2)}),
        ("number", "mixed", {"y": (5,)}),
        ("number", "scalars", {"y": (5,)}),
        ("number", "numbers", {"y": (5, 1)}),
        ("number", "whole", {"y": (5, 1)}),
    ],
)
def test_what_learns_from_several_features_has_a_loss_an_example_and_learns(project, kind, dataset, outputs):
    recipe, batch, losses = learned(project, kind, dataset)
    assert losses[-1] < losses[0]
    some = {name: batch[name][:5] for name in recipe.inputs}
    assert {name: value.shape for name, value in recipe.predict(some).items()} == outputs


def test_the_default_kind_fits_the_dataset(project):
    for name, dataset in (("one", "rows"), ("two", "numbers"), ("three", "pets")):
        assert main(["new", "recipe", name, "--dataset", dataset]) == 0
    firsts = [(project / f"recipes/{name}.py").read_text().split()[1:3] for name in ("one", "two", "three")]
    assert firsts == [["classes", "apart"], ["a", "number"], ["classes", "of"]]


SOURCES = {
    "builder": "source: builder, needs: own.py",
    "tfds": "source: tfds, needs: data/raw/own.tfds, name: mnist",
    "dataset": "source: dataset, needs: ../data/own",
}


def ingested_elsewhere(project, source, label=True, **shapes):
    """Give a project a dataset whose features are known by what ingest has written."""
    add_dataset(project, SOURCES[source])
    columns = {name: np.zeros((6, *shape), np.float32) for name, shape in shapes.items()}
    columns |= {"label": np.array([0, 1] * 3)} if label else {}
    datasets.write(project / "data/own", {"train": columns, "test": columns}, {"label": ["cat", "dog"]})


def add_dataset(project, entry):
    params = (project / "params.yaml").read_text()
    (project / "params.yaml").write_text(params.replace("\npipelines:", f"  own: {{{entry}}}\n\npipelines:", 1))


@pytest.mark.parametrize("source", SOURCES)
def test_the_default_kind_fits_what_ingest_has_written(project, capsys, source):
    ingested_elsewhere(project, source, age=(), picture=(8, 8, 1))
    assert main(["new", "recipe", "second", "--dataset", "own"]) == 0
    text = (project / "recipes/second.py").read_text()
    assert text.startswith('"""Tell classes of images apart') and '("picture",), "label"' in text
    out = capsys.readouterr().out
    assert "ignored: age of datasets.own" in out and "guess" not in out


def test_a_feature_that_columns_leaves_out_is_not_learned_from(project, capsys):
    features = "features: {x: [a, b], c: c, y: y, label: label}, label: label"
    entry = f"source: table, needs: data/raw/rows.csv, test: 0.2, {features}"
    add_dataset(project, f"{entry}, columns: [y, c, x]")
    assert main(["new", "recipe", "second", "--dataset", "own"]) == 0
    assert '("x", "c"), "y"' in (project / "recipes/second.py").read_text()
    assert "ignored: " not in capsys.readouterr().out
    assert main(["new", "recipe", "third", "--like", "table", "--dataset", "own"]) == 2
    assert "datasets.own has no label" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("names", "target"),
    [(["price", "rooms"], "rooms"), (["area", "Y", "rooms"], "Y"), (["outcome", "target", "z"], "target")],
)
def test_the_number_that_a_name_marks_is_predicted_else_the_last_and_that_is_said(project, capsys, names, target):
    features = ", ".join(f"{name}: [{column}]" for name, column in zip(names, "abc", strict=False))
    add_dataset(project, f"source: table, needs: data/raw/rows.csv, test: 0.2, features: {{{features}}}")
    assert main(["new", "recipe", "second", "--dataset", "own"]) == 0
    inputs = ", ".join(repr(name) for name in names if name != target)
    assert capsys.readouterr().out.splitlines()[0] == f"predicts {target!r} from {inputs}"
    assert f'"{target}"\n' in (project / "recipes/second.py").read_text()


@pytest.mark.parametrize(
    ("kind", "said"), [("image", "predicts 'label' from 'image'"), ("gan", "learns to make 'image'")]
)
def test_what_is_learned_of_images_is_said(project, capsys, kind, said):
    assert main(["new", "recipe", "second", "--like", kind, "--dataset", "pets"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == said


def test_numbers_without_a_label_are_learned_as_a_number(project):
    ingested_elsewhere(project, "builder", label=False, x=(3,), price=())
    assert main(["new", "recipe", "second", "--dataset", "own"]) == 0
    assert '("x",), "price"' in (project / "recipes/second.py").read_text()


@pytest.mark.parametrize("source", SOURCES)
def test_of_a_dataset_that_is_not_ingested_the_names_are_a_guess(project, capsys, source):
    add_dataset(project, SOURCES[source])
    assert main(["new", "recipe", "second", "--dataset", "own"]) == 0
    said = "predicts 'label' from 'x': a guess, since the features of datasets.own are unknown until `dvc repro ingest@own`\n"
    assert said in capsys.readouterr().out


@pytest.mark.parametrize(
    ("kind", "label", "said"),
    [
        (
            "table",
            True,
            "datasets.own has label, picture: a recipe for classes from columns of numbers cannot learn from these",
        ),
        ("own-step", True, "datasets.own has label, picture: a recipe for"),
        (
            "number",
            False,
            "datasets.own has picture: a recipe for a number from columns of numbers cannot learn from these",
        ),
        ("text", True, "datasets.own has label, picture: a recipe for classes of texts"),
        ("image", False, "datasets.own has no label: `--like gan` needs none"),
    ],
)
def test_columns_are_not_learned_from_images(project, capsys, kind, label, said):
    ingested_elsewhere(project, "builder", label=label, picture=(8, 8, 1))
    assert main(["new", "recipe", "second", "--like", kind, "--dataset", "own"]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
    assert not (project / "recipes/second.py").exists()


def test_without_a_dataset_only_the_file_is_written(project, capsys):
    before = (project / "params.yaml").read_bytes()
    assert main(["new", "recipe", "my-own", "--like", "own-step"]) == 0
    assert (project / "params.yaml").read_bytes() == before
    assert "class MyOwn(Recipe)" in (project / "recipes/my_own.py").read_text()
    out = capsys.readouterr().out
    assert "add to `pipelines:` in params.yaml:\n  my-own:\n    dataset: NAME\n    recipe: recipes/my_own.py\n" in out


def test_comments_and_formatting_stay(project):
    params = (project / "params.yaml").read_bytes().replace(b"\n", b"\r\n")
    ending = b"# behind all\r\nregistry: {models: {iris: {}}}  # the end"
    (project / "params.yaml").write_bytes(params.rstrip() + b"  # last\r\n\r\n" + ending)
    before = (project / "params.yaml").read_bytes()
    assert main(["new", "recipe", "second", "--dataset", "rows"]) == 0
    after = (project / "params.yaml").read_bytes()
    start = after.index(b"  second:\r\n")
    end = after.index(b"\r\n\r\n# behind all")
    assert after[:start] + after[end + 2 :] == before
    assert b"\n" not in after.replace(b"\r\n", b"")


def test_again_it_changes_nothing(project, capsys):
    arguments = ["new", "recipe", "second", "--dataset", "rows"]
    assert main(arguments) == 0
    before = (project / "params.yaml").read_bytes(), (project / "recipes/second.py").read_bytes()
    capsys.readouterr()
    assert main(arguments) == 0
    assert capsys.readouterr().out == "nothing to do: everything exists already\n"
    assert ((project / "params.yaml").read_bytes(), (project / "recipes/second.py").read_bytes()) == before


NAMES = ["../x", "a b", "class", "lambda", "A", "ü", "", "-x", "x-", "a--b", "a/b", "con", "a" * 65, "1x", ".x", "x\n"]


@pytest.mark.parametrize("name", [*NAMES, "iris"])
def test_a_name_that_cannot_be_is_one_line_and_nothing_is_written(project, capsys, name):
    (project / "recipes/iris.py").write_text("# mine\n")
    before = sorted(project.rglob("*"))
    assert main(["new", "recipe", "--like=table", "--", name]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert sorted(project.rglob("*")) == before
    assert (project / "recipes/iris.py").read_text() == "# mine\n"


def test_the_same_file_where_case_does_not_count(project, capsys):
    (project / "recipes/Second.PY").write_text("# mine\n")
    assert main(["new", "recipe", "second"]) == 2
    assert "the same file on a case-insensitive system" in capsys.readouterr().err
    assert not (project / "recipes/second.py").exists()


def test_a_link_to_nowhere_is_not_followed(project, capsys):
    (project / "recipes/second.py").symlink_to(project / "nowhere.py")
    assert main(["new", "recipe", "second"]) == 2
    assert "recipes/second.py exists" in capsys.readouterr().err
    assert os.path.lexists(project / "recipes/second.py")
    assert not (project / "nowhere.py").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--dataset", "iriss"], "did you mean 'iris'?"),
        (
            ["--like", "vae"],
            "'vae' is not a kind of recipe: choose one of table (classes from columns of numbers); number",
        ),
        (["--like", "gan", "--dataset", "rows"], "datasets.rows has x, label: a recipe for images from noise"),
        (["--like", "table", "--dataset", "pets"], "datasets.pets has image, label: a recipe for"),
        (["--like", "table", "--dataset", "numbers"], "datasets.numbers has no label: `--like number`"),
    ],
)
def test_what_does_not_fit_is_one_line(project, capsys, arguments, said):
    before = (project / "params.yaml").read_bytes()
    assert main(["new", "recipe", "second", *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not (project / "recipes/second.py").exists()
    assert (project / "params.yaml").read_bytes() == before


def test_params_that_only_a_person_can_extend(project, capsys):
    text = (project / "params.yaml").read_text()
    (project / "params.yaml").write_text(text.partition("pipelines:")[0] + "pipelines: {}\n")
    assert main(["new", "recipe", "second", "--dataset", "rows"]) == 2
    assert "cannot be extended automatically" in capsys.readouterr().err
    assert not (project / "recipes/second.py").exists()
