"""The schema that editors use: it takes what `params.yaml` may say, and finds what would be refused."""

import json
import shutil

import jsonschema
import pytest
from ruamel.yaml import YAML

from tapeline.config import schema
from tapeline.config.params import Params
from tapeline.config.project import Project
from tapeline.scaffold.init import init


def content(folder):
    return YAML(typ="safe").load((folder / "params.yaml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A folder that `tapeline init` has filled, which nobody changes."""
    folder = tmp_path_factory.mktemp("project")
    init(folder, say=lambda line: None)
    return folder


@pytest.mark.parametrize("folder", ["", "gallery"])
def test_it_takes_this_repository_s_own_files(root, folder):
    found = schema.schema(root / folder, Params.load(root / folder))
    jsonschema.Draft202012Validator.check_schema(found)
    jsonschema.validate(content(root / folder), found)
    assert (root / folder / "params.yaml").read_text().splitlines()[0] == schema.LINE


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("params", "learning_rate", -1.0),
        ("params", "learning_rat", 0.1),
        ("params", "units", "many"),
        ("train", "epochs", 0),
        ("train", "batchsize", 8),
        ("train", "accumulate", 2),
        ("validate", "thresholds", {"accuracy": {"least": 1}}),
    ],
)
def test_a_wrong_value_is_found_while_it_is_typed(project, section, key, value):
    found = json.loads((project / ".tapeline" / schema.FILE).read_text())
    jsonschema.validate(content(project), found)
    wrong = content(project)
    wrong["pipelines"]["iris"][section][key] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, found)


def test_a_recipe_that_is_being_written_says_nothing(project, tmp_path):
    folder = shutil.copytree(project, tmp_path / "project")
    (folder / "recipes/iris.py").write_text("class Iris(")
    path = schema.write(Project.find(folder))
    jsonschema.validate(content(folder), json.loads(path.read_text()))
