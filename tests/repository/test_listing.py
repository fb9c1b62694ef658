"""`tapeline list` in a real Git and DVC repository: what is built, what is stale, what is only recorded."""

import json
import os
import shutil
import subprocess
import sys

import pytest
from repositories import RECIPE, Repository

from tapeline.config.params import Params
from tapeline.config.project import Project
from tapeline.repository.listing import entries
from tapeline.runtime.errors import InputError, RunError


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
    assert states(folder)["one"][1] == "recorded, but its files are not here"


def test_raw_data_that_are_not_here_are_compared_by_their_record(tmp_path):
    """As in a clone before `dvc pull`, where somebody has committed new raw data without building anything."""
    repository = Repository(tmp_path)
    folder = repository.folder
    raw = folder / "raw.csv"
    raw.write_text("x\n1\n")
    repository.dvc("add", "--quiet", "raw.csv")
    stages = (folder / "dvc.yaml").read_text()
    (folder / "dvc.yaml").write_text(stages.replace('> data/${key}", outs:', '> data/${key}", deps: [raw.csv], outs:'))
    repository.dvc("repro", "--quiet", "export@one")
    raw.unlink()
    assert states(folder)["one"][1] == "recorded, but its files are not here"
    raw.write_text("x\n2\n")
    repository.dvc("add", "--quiet", "raw.csv")
    raw.unlink()
    assert states(folder)["one"][1] == "stale: ingest"


def test_raw_data_that_dvc_overlooks(tmp_path):
    folder = Repository(tmp_path).folder
    (folder / "data/raw").mkdir(parents=True)
    (folder / "data/raw/own.csv.dvc").write_text("outs:\n- path: own.csv\n")
    (folder / ".gitignore").write_text("/data/*\n!/data/raw/\n")
    with pytest.raises(InputError, match=r"DVC does not see data/raw/own\.csv\.dvc"):
        states(folder)


def depend_on_parameters(folder):
    stages = (folder / "dvc.yaml").read_text()
    parameters = '      params: ["pipelines.${key}.train"]\n'
    (folder / "dvc.yaml").write_text(stages.replace('      deps: ["data/', f'{parameters}      deps: ["data/'))


COUNT = """
import collections, os, sys
opened = collections.Counter()
def hook(event, arguments):
    if event == "open" and isinstance(arguments[0], str):
        opened[os.path.basename(arguments[0])] += 1
sys.addaudithook(hook)
from tapeline.cli.main import main
assert main(["list"]) == 0
print(*(f"{name}={opened[name]}" for name in ("params.yaml", "dvc.yaml", "dvc.lock", "rwlock", "engine.lock")))
"""


@pytest.mark.slow
def test_how_often_files_are_read_does_not_grow_with_the_pipelines(tmp_path):
    answers = []
    for more in (1, 6):
        repository = Repository(tmp_path / str(more))
        folder, names = repository.folder, [f"more-{number}" for number in range(more)]
        with (folder / "params.yaml").open("a") as params:
            params.writelines(f"  {name}: *one\n" for name in names)
        depend_on_parameters(folder)
        repository.dvc("repro", "--quiet", *(f"export@{name}" for name in ("one", *names)))
        command = [sys.executable, "-c", COUNT]
        answer = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.splitlines()
        assert sum("up to date" in line for line in answer) == 1 + more
        answers.append(answer[-1])
    assert answers[0] == answers[1]
    assert "params.yaml=0" not in answers[0]


def test_a_parameter_that_has_changed_is_seen(tmp_path):
    repository = Repository(tmp_path)
    folder = repository.folder
    depend_on_parameters(folder)
    repository.dvc("repro", "--quiet", "export@one")
    assert states(folder)["one"][1] == "up to date"
    params = (folder / "params.yaml").read_text()
    (folder / "params.yaml").write_text(params.replace("epochs: 1", "epochs: 2"))
    assert states(folder)["one"][1] == "stale: train"


def test_a_file_that_another_dvc_writes_is_named(tmp_path):
    folder = Repository(tmp_path).folder
    holder = {"pid": os.getppid(), "cmd": "dvc repro"}
    (folder / ".dvc/tmp/rwlock").write_text(json.dumps({"write": {str(folder / "runs/one.weights"): holder}}))
    with pytest.raises(RunError, match="is busy, it is being blocked by"):
        states(folder)
