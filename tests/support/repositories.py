"""A real Git and DVC repository laid out like a project, whose stages are shell commands without TensorFlow."""

import subprocess
import sys
from pathlib import Path

RECIPE = '"""Nothing but a docstring.\n\nMore."""\n'
DVC = """
stages:
  ingest:
    foreach: ${datasets}
    do: {cmd: "mkdir -p data && echo ${key} > data/${key}", outs: ["data/${key}"]}
  train:
    foreach: ${pipelines}
    do:
      cmd: "mkdir -p runs && (echo ${key}; TRAIN) > runs/${key}.weights"
      deps: ["data/${item.dataset}", "${item.recipe}"]
      outs: ["runs/${key}.weights"]
  validate:
    foreach: ${pipelines}
    do: {cmd: "echo ${key} > runs/${key}.json", deps: ["runs/${key}.weights"], outs: ["runs/${key}.json"]}
  export:
    foreach: ${pipelines}
    do:
      cmd: "mkdir -p models/${key} && (echo ${key}; EXPORT) > models/${key}/graph && echo 1 > models/${key}/weights"
      deps: ["runs/${key}.json"]
      outs: ["models/${key}"]
"""
PARAMS = """
datasets:
  near: {source: table, needs: recipe.py, features: {x: x}}
  far: {source: tfds, needs: recipe.py, name: mnist}
pipelines:
  one: &one {dataset: near, recipe: recipe.py, needs: recipe.py, params: {}, validate: {}, export: {}, train: {epochs: 1, batch_size: 1}}
  two: {<<: *one, dataset: far, recipe: other.py}
"""


def git(folder: Path, *arguments: str) -> str:
    """Call Git, and return what it prints."""
    return called(folder, "git", *arguments)


def called(folder: Path, *command: str) -> str:
    """Run a command, which must succeed, and return what it prints."""
    answer = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    return answer.stdout


class Repository:
    """The pipelines `one` and `two` (whose data needs a network) in a folder; `one` is built and committed."""

    def __init__(self, folder: Path, *, train: str = "true", export: str = "true") -> None:
        """Create the repository. train, export: shell commands whose output goes into the stages' outputs."""
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("config", "user.email", "test@example.org")
        self.git("config", "user.name", "Test")
        self.dvc("init", "--quiet")
        self.dvc("config", "core.analytics", "false")
        stages = DVC.replace("TRAIN", train).replace("EXPORT", export)
        for name, text in {"recipe.py": RECIPE, "other.py": RECIPE, "dvc.yaml": stages, "params.yaml": PARAMS}.items():
            (folder / name).write_text(text)
        self.dvc("repro", "--quiet", "export@one")
        self.commit()

    def git(self, *arguments: str) -> str:
        return git(self.folder, *arguments)

    def dvc(self, *arguments: str) -> str:
        return called(self.folder, sys.executable, "-m", "dvc", *arguments)

    def commit(self) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "state")
