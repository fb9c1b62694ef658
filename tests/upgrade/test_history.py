"""A project that was a fork of this repository, made with the library as it was then, is upgraded by one command."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

FORK = "a2529190f5d223c94647b828625948ec56c7430c"
"""The last commit whose stages depended on single files of the library, in the project's own tree."""
PIPELINE = """pipelines:
  line:
    dataset: line
    recipe: src/tapeline/recipes/linear_regression.py
    needs: data/line
    params: {learning_rate: 0.01}
    train: {epochs: 20, batch_size: 2, shuffle: false}
    validate: {}
    export: {}
"""


def call(folder, *command, **variables):
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    answer = subprocess.run(
        command, cwd=folder, env={**environment, "PATH": path, **variables}, capture_output=True, text=True, check=False
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout


def locked(folder):
    stages = YAML(typ="safe").load((folder / "dvc.lock").read_text())["stages"]
    return {out["path"]: out["md5"] for stage in stages.values() for out in stage["outs"]}


@pytest.fixture
def fork(root, tmp_path):
    """The project of that commit with one cheap pipeline, built by that library."""
    known = subprocess.run(["git", "cat-file", "-e", f"{FORK}^{{commit}}"], cwd=root, capture_output=True, check=False)
    if known.returncode:
        pytest.skip(f"this checkout does not have the commit {FORK[:7]}: a clone with all history has")
    archive = subprocess.run(["git", "archive", FORK], cwd=root, capture_output=True, check=True).stdout
    folder = tmp_path / "a fork"
    folder.mkdir()
    subprocess.run(["tar", "x"], cwd=folder, input=archive, check=True)
    for name in ("gallery", "tests", "benchmarks", "runs"):
        shutil.rmtree(folder / name)
    (folder / "dvc.lock").unlink()
    params = (folder / "params.yaml").read_text()
    (folder / "params.yaml").write_text(params.partition("pipelines:")[0] + PIPELINE)
    (folder / "größe").mkdir()
    (folder / "größe" / "params.yaml").write_text("pipelines: {}\n")  # Git quotes such a path, unless asked not to
    call(folder, "git", "init", "--quiet")
    call(folder, "git", "config", "user.email", "test@example.org")
    call(folder, "git", "config", "user.name", "Test")
    call(folder, sys.executable, "-P", "-m", "dvc", "repro", "--quiet", "export@line")
    call(folder, "git", "add", "--all")
    call(folder, "git", "commit", "--quiet", "--message", "Trained")
    return folder


@pytest.mark.long
def test_a_fork_is_upgraded_and_nothing_is_stale(root, fork):
    before, params = locked(fork), (fork / "params.yaml").read_text()
    weights = {path: path.read_bytes() for path in (fork / "runs/line/train/weights").iterdir()}
    this = {"PYTHONPATH": str(root / "src")}
    upgrade = (sys.executable, "-P", "-m", "tapeline", "upgrade")
    said = subprocess.run(upgrade, cwd=fork, env={**os.environ, **this}, capture_output=True, text=True, check=False)
    assert said.returncode == 1 and "line: differs: export@line: models/line/saved_model/saved_model.pb " in said.stdout
    assert "  recorded with native bits; `--accept line` takes portable ones" in said.stdout
    assert locked(fork) == before
    said = call(fork, *upgrade, "--accept", "line", **this).splitlines()
    assert {f"{stage}@line" for stage in ("ingest", "train", "validate")} <= {
        stage.partition(":")[0] for stage in said if ": same, " in stage
    }
    assert any(line.startswith("line: accepted: export@line: ") for line in said)
    after = locked(fork)
    assert {path for path in before if before[path] != after[path]} == {
        "data/line",
        "runs/line/train/run.json",
        "models/line",
    }
    assert {path: path.read_bytes() for path in weights} == weights
    assert (fork / "params.yaml").read_text() == params.replace(
        params[params.index("# The libr") : params.index("datasets:")], ""
    )
    assert not (fork / "src/tapeline/__main__.py").exists()
    assert (fork / "src/tapeline/recipes/linear_regression.py").exists()
    dvc = (sys.executable, "-P", "-m", "dvc")
    assert call(fork, *dvc, "status", "export@line", "train@line", "validate@line").strip().endswith("up to date.")
    call(fork, "git", "add", "--all")
    call(fork, "git", "commit", "--quiet", "--message", "Upgraded")
    assert "didn't change" in call(fork, *dvc, "repro", "export@line", **this)
    assert "up to date" in call(fork, sys.executable, "-P", "-m", "tapeline", "list", **this)
