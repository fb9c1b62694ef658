"""`tapeline list` in a real Git and DVC repository: what is built, what is stale, what is only recorded."""

import shutil

from repositories import RECIPE, Repository

from tapeline.listing import entries
from tapeline.params import Params
from tapeline.project import Project


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
