"""The schema that editors use: it takes what `params.yaml` may say, and finds what would be refused."""

import json

import jsonschema
import pytest
from ruamel.yaml import YAML

from tapeline.config import schema
from tapeline.config.params import Params
from tapeline.config.project import Project
from tapeline.scaffold.init import init


def content(folder):
    return YAML(typ="safe").load((folder / "params.yaml").read_text(encoding="utf-8"))


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
        ("validate", "thresholds", {"accuracy": {"least": 1}}),
    ],
)
def test_a_wrong_value_is_found_while_it_is_typed(tmp_path, section, key, value):
    init(tmp_path, say=lambda line: None)
    found = json.loads((tmp_path / ".tapeline" / schema.FILE).read_text())
    jsonschema.validate(content(tmp_path), found)
    wrong = content(tmp_path)
    wrong["pipelines"]["iris"][section][key] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, found)


def test_a_recipe_that_is_being_written_says_nothing(tmp_path):
    init(tmp_path, say=lambda line: None)
    (tmp_path / "recipes/iris.py").write_text("class Iris(")
    path = schema.write(Project.find(tmp_path))
    jsonschema.validate(content(tmp_path), json.loads(path.read_text()))
