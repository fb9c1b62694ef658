"""`python -m flows.…` below the root: the install finds the flows, and those of another tree are not run there."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = "import hatchling.build, sys; hatchling.build.build_editable(sys.argv[1])"
PARAMS = "datasets: {}\npipelines: {}\n"


@pytest.fixture
def tree(tmp_path):
    """A tree with these flows and sources."""
    made = tmp_path / "tree"
    made.mkdir()
    for name in ("flows", "src"):
        shutil.copytree(ROOT / name, made / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, made / name)
    (made / "params.yaml").write_text(PARAMS)
    (made / "docs" / "deep").mkdir(parents=True)
    return made


def call(folder, *command, **environment):
    environment = {**os.environ, **environment}
    return subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture
def installed(tree, tmp_path):
    """What an editable install of the tree puts on Python's path."""
    built = call(tree, "-c", BUILD, str(tmp_path))
    assert built.returncode == 0, built.stderr
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith(".pth"))
        return os.pathsep.join(wheel.read(name).decode().split("\n"))


@pytest.mark.parametrize("flow", ["training", "sweep", "promotion", "inference", "serve"])
def test_a_subfolder_of_the_tree(tree, installed, flow):
    done = call(tree / "docs" / "deep", "-m", f"flows.{flow}", "--help", PYTHONPATH=installed)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"usage: python -m flows.{flow}")


def test_the_project_of_the_tree_is_meant(tree, installed):
    done = call(tree / "docs" / "deep", "-m", "flows.training", "--pipeline", "none", PYTHONPATH=installed)
    assert (done.returncode, done.stderr) == (2, "training: no pipeline 'none' in params.yaml; there are none\n")


def test_another_tree_has_its_own(tree, installed, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(tree, other)
    done = call(other / "docs", "-m", "flows.training", "--pipeline", "none", PYTHONPATH=installed)
    said = f"flows: {tree} is installed and {other} has flows of its own: `cd {other}` and run it there\n"
    assert (done.returncode, done.stderr) == (2, said)
    done = call(other, "-m", "flows.training", "--pipeline", "none", PYTHONPATH=installed)
    assert done.stderr == "training: no pipeline 'none' in params.yaml; there are none\n", "Python looks here first"
    done = call(other / "docs", "-c", "import flows", PYTHONPATH=installed)
    assert (done.returncode, done.stderr) == (0, ""), "whoever imports the flows knows which"
