"""A recipe that imports a package of its repository: stale, isolated and rebuilt by that package's own content."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
WEIGHTS = "runs/iris/train/weights/weights.data-00000-of-00001"


@pytest.fixture
def project(tmp_path, root):
    """Return a function that calls a program in a project whose recipe has its units from `mypkg`."""
    top = tmp_path / "project"
    package = top / "src" / "mypkg"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("def units():\n    return 8\n")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(root / "src"), str(top / "src")]),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    } | {f"GIT_{who}_{what}": "t@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}

    def call(*command, status=0):
        answer = subprocess.run(
            command, cwd=top, env=environment, capture_output=True, text=True, check=False, timeout=280
        )
        assert answer.returncode == status, answer.stdout + answer.stderr
        return answer.stdout + answer.stderr

    call("git", "init", "-q", "-b", "main")
    call("tapeline", "init")
    recipe, params = top / "recipes" / "iris.py", top / "params.yaml"
    text = recipe.read_text().replace("import keras\n", "import keras\nfrom mypkg import units\n", 1)
    recipe.write_text(text.replace("self.params.units, activation", "units(), activation"))
    params.write_text(params.read_text().replace("epochs: 50", "epochs: 2"))
    call.top, call.params, call.package = top, params, package / "__init__.py"
    return call


@pytest.mark.long
def test_its_changes_make_a_run_stale_and_an_isolated_run_has_its_committed_content(project):
    said = project("tapeline", "run", "--pipeline", "iris", status=2)
    assert "iris.py imports src/mypkg/__init__.py, whose changes DVC would not see" in said
    assert "set `needs: src/mypkg` for the pipeline" in said
    project.params.write_text(
        project.params.read_text().replace("needs: data/iris  # no further input", "needs: src/mypkg")
    )
    project("tapeline", "run", "--pipeline", "iris")
    weights = (project.top / WEIGHTS).stat().st_size
    project("git", "add", ".")
    project("git", "commit", "-qm", "one")
    assert "train@iris     unchanged" in project("tapeline", "run", "--pipeline", "iris")

    project.package.write_text("def units():\n    return 64\n")
    assert "stale: train, validate" in project("tapeline", "list", "--offline")
    project("tapeline", "run", "--pipeline", "iris", "--isolated", "--set", "params.learning_rate=0.02")
    branch = project("git", "branch", "--list", "runs/*", "--format=%(refname:short)").strip()
    project("git", "checkout", "-q", "--", "src")
    project("git", "merge", "-q", branch)
    project("dvc", "checkout", "-q")
    assert (project.top / WEIGHTS).stat().st_size == weights, "8 units, as committed, not the 64 of the edit"
    assert "NO" not in project("tapeline", "verify", "iris")


@pytest.mark.long
def test_a_recipe_that_is_called_as_a_library_is_in_nobody_s_way(project):
    text, recipes = project.params.read_text(), project.top / "recipes"
    project.params.write_text(text.replace("needs: data/iris  # no further input", "needs: src/mypkg"))
    (recipes / "keras.py").write_text((recipes / "iris.py").read_text())
    project("tapeline", "run", "--pipeline", "iris")
    project.params.write_text(project.params.read_text().replace("recipes/iris.py", "recipes/keras.py"))
    assert "train@iris     ran " in project("tapeline", "run", "--pipeline", "iris")
