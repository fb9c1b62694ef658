"""Older forms of `params.yaml` and `dvc.yaml`: what is migrated, what stays, what is refused."""

import pytest
from older import OWN, STAGES
from ruamel.yaml import YAML

from tapeline.runtime.errors import InputError
from tapeline.scaffold.proposal import template
from tapeline.upgrade import forms

PARAMS = """\
# Mine.
environment: {tensorflow: 2.21.0, keras: 3.15.1}   # gone
# About data.
datasets:   {a:   1}
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (PARAMS, "# Mine.\n# About data.\ndatasets:   {a:   1}\n"),
        (
            f"a: 1\n\n{forms.OLD_COMMENT}\nenvironment:\n  tensorflow: 1\n  # why\n  keras: 2\n\n# b\nb: [1,\n  2]\n",
            "a: 1\n\n# b\nb: [1,\n  2]\n",
        ),
        ("a: 1\nenvironment:\n  keras: 2", "a: 1\n"),
        ("environment:\n  keras: |\n    2\n\na: 'x'\n", "a: 'x'\n"),
        ("a: 1 # as it is\n", "a: 1 # as it is\n"),
        ("environment: {}\nk:\n    - {x: 1}\n    -   y\n", "k:\n    - {x: 1}\n    -   y\n"),
    ],
)
def test_params_lose_one_section_and_nothing_else(old, new):
    assert forms.params(old) == new
    assert forms.params(new) == new


def pipelines(train):
    return f"# mine\npipelines:\n  a:\n    train: {train}\n    dataset: 'x'\n"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (pipelines("{epochs: 3, accumulate: 4}"), pipelines("{epochs: 3, shards: 4, at_once: 1}")),
        (pipelines("{replicas:  2, seed: 1}"), pipelines("{shards: 2, seed: 1}")),
        (pipelines("{replicas: 2, seed: 1, accumulate: 4}"), pipelines("{shards: 8, seed: 1, at_once: 2}")),
        (pipelines("{accumulate: 1}"), pipelines("{shards: 1}")),
        (pipelines("{replicas: '2'}"), pipelines("{shards: 2}")),
        *(
            (pipelines("{replicas: 2}") + broken, pipelines("{shards: 2}") + broken)
            for broken in ("  b: {dataset: x}\n", "  b: {train: }\n", "  b:\n", "  b: [train]\n")
        ),
        (
            pipelines("\n      epochs: 3\n      accumulate: 4   # memory\n      # why\n      seed: 1"),
            pipelines("\n      epochs: 3\n      shards: 4\n      at_once: 1   # memory\n      # why\n      seed: 1"),
        ),
        (
            pipelines("&t {accumulate: 2}") + "  b: {train: *t}\n  c:\n    train: {<<: *t, epochs: 2}\n",
            pipelines("&t {shards: 2, at_once: 1}") + "  b: {train: *t}\n  c:\n    train: {<<: *t, epochs: 2}\n",
        ),
    ],
)
def test_what_cut_batches_before_is_shards_today(old, new):
    assert forms.params(old) == new
    assert forms.params(new) == new


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{environment: {keras: 1}, a: 2}\n", "params.yaml: environment shares its lines"),
        (pipelines("{accumulate: many}"), "params.yaml: accumulate and replicas are shards today, and must be numbers"),
        (pipelines("{accumulate: 2, shards: 2}"), "params.yaml: accumulate and replicas are shards today, see"),
        ("a: [\n", "params.yaml, line 2: not YAML"),
        ("- a\n", "params.yaml is not a mapping"),
    ],
)
def test_params_that_cannot_be_migrated_are_one_line(text, said):
    with pytest.raises(InputError) as refused:
        forms.params(text)
    assert str(refused.value).startswith(said) and "\n" not in str(refused.value)


def test_older_stages_become_todays_and_what_is_ones_own_stays():
    mine = "  mine:   # own\n    cmd: echo   1\n    deps: [a]\n"
    new = forms.dvc(STAGES.read_text() + mine + OWN)
    assert new == template("dvc.yaml").removesuffix("\n") + "\n" + mine + "\n" + OWN.replace("plots", "\nplots")
    assert forms.dvc(new) == new
    assert {"mine", "train"} <= YAML(typ="safe").load(new)["stages"].keys()


COMMENTED = """\
  # mine: on the large machine only

  mine: {cmd: echo 1}

  # two:
  #   cmd: echo 2

# Models that the team of Ana owns, see the wiki.

artifacts:
  one: {path: models/one, type: model}   # live since May

  # two: {path: models/two, type: model}

# for the weekly report

plots:
  - a.csv

# the end
"""


def test_comments_stay_wherever_they_are():
    header, older = STAGES.read_text().partition("stages:\n")[::2]
    above = "  # Ana says: not on Fridays\n"
    text = f"{header}stages:\n{older.replace('  train:', above + '  train:').rstrip()}\n\n{COMMENTED}"
    assert forms.dvc(text) == template("dvc.yaml") + above + "\n" + COMMENTED
    first = "# Ana's\n\nplots:\n  - a.csv\n"
    assert forms.dvc(f"{first}\nstages:\n{older}# the end\n") == f"{template('dvc.yaml')}{first}\n# the end\n"


def test_the_form_before_the_libraries_is_migrated_too():
    before = template("dvc.yaml").replace(", libraries]", "]").replace('params: ["', 'params: [environment, "')
    assert "libraries" not in before.partition("stages:")[2]
    assert forms.dvc(before + OWN.partition("plots")[0]) == template("dvc.yaml") + OWN.partition("plots")[0]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("- ${item.needs}", "- ${item.needs}\n        - my/own.py", "ingest has my/own.py in deps"),
        ("- environment", "- environment\n        - other.yaml:", "ingest has other.yaml in params"),
        ("- data/${key}", "- data/${key}\n        - more", "ingest has more in outs"),
        ("python -m tapeline ingest", "python my.py", "ingest is not a stage of Tapeline"),
        ("  train:", "  fit:", "does not have the stages"),
        ("stages:", "vars: [{mine: 1}]\nstages:", "has its own vars"),
        ("stages:", "stages: [", "line 5: not YAML"),
    ],
)
def test_stages_changed_by_hand_are_refused(old, new, said):
    text = STAGES.read_text() + OWN
    assert old in text
    with pytest.raises(InputError, match="dvc.yaml") as refused:
        forms.dvc(text.replace(old, new, 1))
    assert said in str(refused.value) and "\n" not in str(refused.value)
