"""`params.yaml`: every mistake is one line that names what came, what the rule is and what to do."""

import pytest

from tapeline.config.params import Params, check_recipe
from tapeline.runtime.errors import InputError

GOOD = """
datasets:
  line: {source: table, needs: line.csv, features: {x: [x1, x2], y: [y]}}
pipelines:
  line-fit:
    dataset: line
    recipe: recipe.py
    needs: data/line
    params: {learning_rate: 0.01}
    train: {epochs: 3, batch_size: 2}
    validate: {thresholds: {loss: {max: 0.5}}}
    export: {}
"""
RECIPE = """
from tapeline.recipe import RecipeParams, Supervised, field

class Line(Supervised):
    class Params(RecipeParams):
        learning_rate: float = field(0.01, gt=0)
        layers: int = 2
"""


def load(folder, text):
    (folder / "params.yaml").write_text(text)
    return Params.load(folder)


def test_the_good_file_loads(tmp_path):
    params = load(tmp_path, GOOD)
    assert params.pipeline("line-fit").train.batch_size == 2
    assert params.dataset("line").needs == "line.csv"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("batch_size: 2", "batch_size: two", 'pipelines.line-fit.train.batch_size is "two": must be a valid integer'),
        ("batch_size: 2", "batch_size: 0", "train.batch_size is 0: must be greater than 0"),
        ("batch_size: 2", "batch_size: 2.5", "train.batch_size is 2.5: must be a valid integer"),
        ("batch_size: 2", "batch_size: '2'", 'train.batch_size is "2": must be a valid integer'),
        ("batch_size: 2", "batch_sizes: 2", "batch_sizes: no such setting; did you mean 'batch_size'?"),
        ("epochs: 3, ", "", "train.epochs is missing"),
        ("epochs: 3", "epochs: -3", "train.epochs is -3: must be greater than 0"),
        ("epochs: 3", "epochs: 3, compile: jit", "train.compile is \"jit\": must be 'eager', 'graph' or 'xla'"),
        ("epochs: 3", "epochs: 3, precision: float16", "must be 'float32' or 'mixed_bfloat16'"),
        ("epochs: 3", "epochs: 3, seed: -1", "train.seed is -1: must be greater than or equal to 0"),
        ("epochs: 3", "epochs: 3, seed: 2147483648", "train.seed is 2147483648: must be less than 2147483648"),
        (
            "epochs: 3",
            "epochs: 9223372036854775807",
            "train.epochs is 9223372036854775807: must be less than 2147483648",
        ),
        ("{max: 0.5}", "{min: 0.9, max: 0.1}", "no value is at least 0.9 and at most 0.1: `min` must not exceed `max`"),
        ("epochs: 3", "epochs: 3, ema: 1.5", "train.ema is 1.5: must be less than 1"),
        ("epochs: 3", "epochs: 3, max_time: .inf", "train.max_time"),
        (
            "epochs: 3",
            "epochs: 3, validate_every: 9, best: {metric: loss, mode: min, patience: 2}",
            "best.patience counts validations, but validate_every is longer than the run: lower it",
        ),
        (
            "dataset: line",
            "dataset: lines",
            "pipelines.line-fit.dataset is 'lines': no such dataset; did you mean 'line'?",
        ),
        (
            "needs: line.csv",
            "needs: [a.py, b.csv]",
            "needs: needs is a list, but `dvc.yaml` takes one path: put a.py and",
        ),
        ("needs: data/line", "needs: [a, b, c]", "put a and b and the others, or links to them, into one folder, and"),
        (
            "needs: line.csv",
            'needs: "in/a\\0b.csv"',
            "datasets.line.needs: needs is 'in/a\\x00b.csv', which has a null byte, as no path may: remove it",
        ),
        (
            "table, needs: line.csv, features: {x: [x1, x2], y: [y]}",
            "images, needs: line, size: [100000, 6]",
            "datasets.line.size.0 is 100000: must be less than or equal to 16384",
        ),
        ("source: table", "source: csv", "datasets.line.source is \"csv\": must be one of 'tfds', "),
        ("line-fit:", "Line_Fit:", "'Line_Fit' is not a name: use lower-case letters, digits and inner hyphens"),
        (
            "datasets:",
            "environment: {tensorflow: 2.21.0, keras: 3.15.1}\ndatasets:",
            "environment is from an older Tapeline: `tapeline upgrade` moves it to engine.lock",
        ),
        ("{loss: {max: 0.5}}", "{loss: {maximum: 0.5}}", "maximum: no such setting"),
        ("  line-fit:", " line-fit: {", "line"),
    ],
)
def test_a_mistake_is_one_line(tmp_path, old, new, said):
    assert old in GOOD
    with pytest.raises(InputError) as raised:
        load(tmp_path, GOOD.replace(old, new, 1))
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)
    assert raised.value.status == 2


def test_empty_and_not_yaml(tmp_path):
    with pytest.raises(InputError, match="is empty"):
        load(tmp_path, "")
    with pytest.raises(InputError, match=r"params.yaml, line 3: not YAML"):
        load(tmp_path, "a: [1,\n b: 2")
    with pytest.raises(InputError, match="is no mapping"):
        load(tmp_path, "- datasets\n- pipelines\n")


@pytest.mark.parametrize(("name", "said"), [("7", "7"), ("true", "true"), ("1e3", "1000.0")])
def test_a_name_that_yaml_takes_for_a_number_is_refused(tmp_path, name, said):
    with pytest.raises(InputError) as raised:
        load(tmp_path, GOOD.replace("line-fit:", f"{name}:"))
    assert str(raised.value) == f'params.yaml: pipelines: {said} is not text to YAML: write "{said}"'


def test_a_value_is_shown_as_it_is_written(tmp_path):
    with pytest.raises(InputError, match='batch_size is "–8"'):
        load(tmp_path, GOOD.replace("batch_size: 2", "batch_size: –8"))


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ("{learning_rate: fast}", 'params.learning_rate is "fast": must be a valid number'),
        ("{learning_rate: 0}", "params.learning_rate is 0: must be greater than 0"),
        ("{learning_rates: 0.1}", "learning_rates: no such setting; did you mean 'learning_rate'?"),
        ("{layers: 2.5}", "params.layers is 2.5: must be a valid integer"),
    ],
)
def test_hyperparameters_are_checked_without_running_the_recipe(tmp_path, params, said):
    (tmp_path / "recipe.py").write_text("raise SystemExit('never run')\n" + RECIPE)
    pipeline = load(tmp_path, GOOD.replace("{learning_rate: 0.01}", params)).pipeline("line-fit")
    with pytest.raises(InputError) as raised:
        check_recipe(tmp_path, "line-fit", pipeline)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (None, "recipe.py does not exist"),
        ("def broken(:\n", "recipe.py, line 1: "),
        ("x = 1\n\nclass A(:\n", "line 3"),
        ("x = 1\n# caf\udce9\n", "recipe.py, line 2: "),
    ],
)
def test_a_recipe_file_that_is_no_python(tmp_path, source, said):
    if source is not None:
        (tmp_path / "recipe.py").write_bytes(source.encode(errors="surrogateescape"))
    pipeline = load(tmp_path, GOOD).pipeline("line-fit")
    with pytest.raises(InputError) as raised:
        check_recipe(tmp_path, "line-fit", pipeline)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "source", [b"\xef\xbb\xbf" + RECIPE.encode(), b"# coding: latin-1\n# caf\xe9\n" + RECIPE.encode()]
)
def test_a_recipe_is_decoded_as_python_does(tmp_path, source):
    (tmp_path / "recipe.py").write_bytes(source)
    check_recipe(tmp_path, "line-fit", load(tmp_path, GOOD).pipeline("line-fit"))


def test_a_notebook_is_no_recipe(tmp_path):
    """Its JSON is an expression of Python's."""
    (tmp_path / "recipe.ipynb").write_text('{"cells": [], "nbformat": 4}')
    pipeline = load(tmp_path, GOOD.replace("recipe.py", "recipe.ipynb")).pipeline("line-fit")
    with pytest.raises(InputError, match=r"recipe.ipynb is a notebook: move the recipe's class to a \.py file$"):
        check_recipe(tmp_path, "line-fit", pipeline)


def test_params_of_a_recipe_that_has_none(tmp_path):
    (tmp_path / "recipe.py").write_text("class Line(Supervised):\n    pass\n")
    pipeline = load(tmp_path, GOOD.replace("{learning_rate: 0.01}", "{rate: 1, units: 2}")).pipeline("line-fit")
    with pytest.raises(InputError, match=r"params.rate: no such setting; there are none \(and 1 more mistake\)$"):
        check_recipe(tmp_path, "line-fit", pipeline)


def test_unknown_names_offer_the_known(tmp_path):
    params = load(tmp_path, GOOD)
    with pytest.raises(InputError, match="no pipeline 'line-fat' in params.yaml; did you mean 'line-fit'"):
        params.pipeline("line-fat")
    with pytest.raises(InputError, match="no dataset 'zebra' in params.yaml; choose from line"):
        params.dataset("zebra")


OTHERS = (
    GOOD
    + """
  other: {dataset: line, recipe: recipe.py, needs: x, params: {}, train: {epochs: false}, validate: {}, export: {}}
  astray: {dataset: bad, recipe: recipe.py, needs: x, params: {}, train: {epochs: 1, batch_size: 1}, validate: {}, export: {}}
registry: {models: {other: {}}}
"""
)


def test_a_mistake_of_one_pipeline_is_only_its_own(tmp_path):
    text = OTHERS.replace("datasets:\n", "datasets:\n  bad: {source: csv}\n")
    with pytest.raises(InputError, match=r"^params.yaml: datasets.bad.source is \"csv\""):
        load(tmp_path, text)
    params, mistakes = Params.sound(tmp_path)
    assert list(params.pipelines) == ["line-fit"] and list(params.datasets) == ["line"]
    assert list(mistakes) == ["datasets.bad", "pipelines.other", "pipelines.astray"]
    assert (
        mistakes["pipelines.other"]
        == "params.yaml: pipelines.other.train.epochs is false: must be a valid integer (and 1 more mistake)"
    )
    assert mistakes["pipelines.astray"] == mistakes["datasets.bad"]
    assert Params.load_for(tmp_path, pipeline="line-fit").pipeline("line-fit").train.epochs == 3
    assert Params.load_for(tmp_path, dataset="line").dataset("line").needs == "line.csv"
    for asked in ({"pipeline": "other"}, {"pipeline": "astray"}, {"dataset": "bad"}):
        with pytest.raises(InputError, match="^params.yaml: "):
            Params.load_for(tmp_path, **asked)


TYPED = """
from tapeline.recipe import Recipe, RecipeParams

class Typed(Recipe):
    class Params(RecipeParams):
        rates: dict[int, float] = {}
        sizes: tuple[int, ...] = ()

    def build(self): ...
    def train_step(self, batch, context): ...
    def eval_step(self, batch, context): ...
"""


def test_numbers_as_keys_and_lists_as_tuples_reach_the_recipe(tmp_path, tf):
    from tapeline.recipe import loading

    (tmp_path / "recipe.py").write_text(TYPED)
    pipeline = load(tmp_path, GOOD.replace("{learning_rate: 0.01}", "{rates: {0: 0.5, 100: 0.1}, sizes: [3, 4]}"))
    check_recipe(tmp_path, "line-fit", pipeline.pipeline("line-fit"))
    built = loading.build(tmp_path / "recipe.py", pipeline.pipeline("line-fit").params, {})
    assert built.params.rates == {0: 0.5, 100: 0.1} and built.params.sizes == (3, 4)
    wrong = load(tmp_path, GOOD.replace("{learning_rate: 0.01}", "{rates: {a: 0.5}}")).pipeline("line-fit")
    with pytest.raises(InputError, match=r'params.rates.a is "a": must be a valid integer$'):
        check_recipe(tmp_path, "line-fit", wrong)
    with pytest.raises(InputError, match=r'recipe.py: rates.a is "a": must be a valid integer$'):
        loading.build(tmp_path / "recipe.py", wrong.params, {})


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("layers: int = 2", "layers: int = 2 // 0", "recipe.py, line 5: Params: ZeroDivisionError: integer division"),
        ("gt=0", "gt=0, lt='x'", "recipe.py, line 5: Params: "),
        ("import RecipeParams", "import \0RecipeParams", "null bytes"),
        ("layers: int = 2", "layers: int = " + "(" * 300 + ")" * 300, "recipe.py, line "),
    ],
)
def test_a_recipe_whose_params_are_no_class(tmp_path, old, new, said):
    (tmp_path / "recipe.py").write_text(RECIPE.replace(old, new))
    pipeline = load(tmp_path, GOOD).pipeline("line-fit")
    with pytest.raises(InputError) as raised:
        check_recipe(tmp_path, "line-fit", pipeline)
    assert said in str(raised.value) and str(raised.value).isprintable()
