"""`tapeline list` in a real Git and DVC repository: what is built, what is stale, what is only recorded."""

import shutil

import pytest
from repositories import RECIPE, Repository

from tapeline.config.params import Params
from tapeline.config.project import Project
from tapeline.repository.listing import entries
from tapeline.runtime.errors import InputError


def states(folder):
    found = entries(Project.find(folder), Params.load(folder))
    return {entry.name: (entry.network, entry.state, entry.idea) for entry in found}


def test_what_is_built_stale_and_missing(tmp_path):
    folder = Repository(tmp_path).folder
    idea = "Nothing but a docstring."
    assert states(folder) == {"one": (False, "up to date", idea), "two": (True, "not built", idea)}

    (folder / "recipe.py").write_text(RECIPE + "x = 1\n")
    assert states(folder)["one"][1] == "stale: train"
    (folder / "recipe.py").write_text(RECIPE)

    shutil.rmtree(folder / ".dvc" / "cache")
    shutil.rmtree(folder / "models")
    assert states(folder)["one"][1] == "recorded, its files are not here"


def test_raw_data_that_dvc_overlooks(tmp_path):
    folder = Repository(tmp_path).folder
    (folder / "data/raw").mkdir(parents=True)
    (folder / "data/raw/own.csv.dvc").write_text("outs:\n- path: own.csv\n")
    (folder / ".gitignore").write_text("/data/*\n!/data/raw/\n")
    with pytest.raises(InputError, match=r"data/raw/own\.csv\.dvc is not seen by DVC"):
        states(folder)
