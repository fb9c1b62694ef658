"""`tapeline list` in a real Git and DVC repository: what is built, what is stale, what is only recorded."""

import shutil
import subprocess
import sys

import pytest

from tapeline.listing import entries
from tapeline.params import Params
from tapeline.project import Project

RECIPE = '"""Nothing but a docstring.\n\nMore."""\n'
DVC = """
stages:
  ingest:
    foreach: ${datasets}
    do: {cmd: "mkdir -p data && echo ${key} > data/${key}", outs: ["data/${key}"]}
  train:
    foreach: ${pipelines}
    do:
      cmd: "mkdir -p runs && echo ${key} > runs/${key}"
      deps: ["data/${item.dataset}", "${item.recipe}"]
      outs: ["runs/${key}"]
  validate:
    foreach: ${pipelines}
    do: {cmd: "echo ${key} > runs/${key}.json", deps: ["runs/${key}"], outs: ["runs/${key}.json"]}
  export:
    foreach: ${pipelines}
    do: {cmd: "mkdir -p models && echo ${key} > models/${key}", deps: ["runs/${key}.json"], outs: ["models/${key}"]}
"""
PARAMS = """
environment: {tensorflow: "1", keras: "1"}
datasets:
  near: {source: table, needs: recipe.py, features: {x: x}}
  far: {source: tfds, needs: recipe.py, name: mnist}
pipelines:
  one: &one {dataset: near, recipe: recipe.py, needs: recipe.py, params: {}, validate: {}, export: {}, train: {epochs: 1, batch_size: 1}}
  two: {<<: *one, dataset: far, recipe: other.py}
"""


@pytest.fixture
def listed(tmp_path):
    def call(*arguments):
        subprocess.run(arguments, cwd=tmp_path, check=True, capture_output=True)

    dvc = (sys.executable, "-m", "dvc")
    call("git", "init")
    call(*dvc, "init", "--quiet")
    for name, text in {"recipe.py": RECIPE, "other.py": RECIPE, "dvc.yaml": DVC, "params.yaml": PARAMS}.items():
        (tmp_path / name).write_text(text)
    call(*dvc, "repro", "export@one")

    def states():
        found = entries(Project.find(tmp_path), Params.load(tmp_path))
        return {entry.name: (entry.network, entry.state, entry.idea) for entry in found}

    return tmp_path, states


def test_what_is_built_stale_and_missing(listed):
    folder, states = listed
    idea = "Nothing but a docstring."
    assert states() == {"one": (False, "up to date", idea), "two": (True, "not built", idea)}

    (folder / "recipe.py").write_text(RECIPE + "x = 1\n")
    assert states()["one"][1] == "stale: train"
    (folder / "recipe.py").write_text(RECIPE)

    shutil.rmtree(folder / ".dvc" / "cache")
    shutil.rmtree(folder / "models")
    assert states()["one"][1] == "recorded, its files are not here"
