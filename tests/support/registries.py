"""A Git and DVC repository laid out like a project, with a remote in a folder, whose stages need no TensorFlow.

The outputs have the real format; the SavedModel is a few bytes that are never loaded, or the content of `graph/`. Gate
and infra check are off.
"""

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import clones

MAKE = """
import json, shutil, sys
from pathlib import Path
import numpy as np

stage, name, value = sys.argv[1:]
if stage == "ingest":
    folder = Path("data", name)
    (folder / "test").mkdir(parents=True)
    np.save(folder / "test" / "x.npy", np.arange(6, dtype=np.float32).reshape(3, 2))
    columns = {"x": {"file": "test/x.npy"}}
    features = {"x": {"shape": [2], "dtype": "float32"}}
    index = {"name": name, "source": {"kind": "test", "version": "1"}, "features": features}
    (folder / "dataset.json").write_text(json.dumps({**index, "splits": {"test": {"examples": 3, "columns": columns}}}))
elif stage == "train":
    Path("runs", name, "train").mkdir(parents=True, exist_ok=True)
    Path("runs", name, "train", "weights").write_text(value * 50)
elif stage == "validate":
    Path("runs", name, "validate").mkdir(parents=True, exist_ok=True)
    np.savez(Path("runs", name, "validate", "predictions.npz"), y=np.zeros(3, np.float32))
else:
    folder = Path("models", name, "saved_model")
    if Path("graph").is_dir():
        shutil.copytree("graph", folder)
    else:
        (folder / "variables").mkdir(parents=True)
        (folder / "saved_model.pb").write_text("graph")
        (folder / "variables" / "variables.data").write_text(value * 200_000)
    spec = {"inputs": {"x": {"dtype": "float32", "shape": [None, 2]}}, "outputs": {"y": {"dtype": "float32", "shape": [None]}}}
    described = {"name": name, "dataset": {"name": "points", "sha256": "0", "source": {"kind": "test"}}, "files": {}}
    described |= {"metrics": {"loss": float(value)}, "signatures": {"serving_default": spec}}
    (folder.parent / "model.json").write_text(json.dumps(described))
"""
DVC = """
stages:
  ingest:
    foreach: ${datasets}
    do: {cmd: "python make.py ingest ${key} 0", deps: [make.py], outs: ["data/${key}"]}
  train:
    foreach: ${pipelines}
    do:
      cmd: "python make.py train ${key} ${item.params.value}"
      deps: ["data/${item.dataset}", "${item.recipe}"]
      params: ["pipelines.${key}.params"]
      outs: ["runs/${key}/train/weights"]
  validate:
    foreach: ${pipelines}
    do:
      cmd: "python make.py validate ${key} ${item.params.value}"
      deps: ["runs/${key}/train/weights"]
      outs: ["runs/${key}/validate/predictions.npz"]
  export:
    foreach: ${pipelines}
    do:
      cmd: "python make.py export ${key} ${item.params.value}"
      deps: ["data/${item.dataset}", "runs/${key}/train/weights", "runs/${key}/validate/predictions.npz"]
      params: ["pipelines.${key}.params"]
      outs: ["models/${key}"]
artifacts:
  one: {path: models/one, type: model}
"""
PARAMS = """
datasets:
  points: {source: table, needs: make.py, features: {x: x}}
pipelines:
  one: {dataset: points, recipe: recipe.py, needs: make.py, params: {value: 1}, validate: {}, export: {}, train: {epochs: 1, batch_size: 1}}
registry:
  stages:
    dev: {gate: false, check: false}
    staging: {gate: false, check: false}
    prod: {gate: false, check: false}
"""
TAPELINE = (sys.executable, "-m", "tapeline")


class Registry:
    """One checkout. The remote is `../remote`, so that a copy of the parent folder has its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def make(cls, folder: Path) -> "Registry":
        """Return a new registry with the pipeline `one` built, committed and pushed."""
        made = cls(folder)
        folder.mkdir(parents=True)
        (folder.parent / "remote").mkdir()
        made.git("init", "--quiet", "--initial-branch=main")
        for key, value in {"user.email": "ann@example.org", "user.name": "Ann"}.items():
            made.git("config", key, value)
        made.dvc("init", "--quiet")
        made.dvc("config", "core.analytics", "false")
        made.dvc("remote", "add", "--quiet", "--default", "store", "../remote")
        files = {"make.py": MAKE, "recipe.py": '"""A recipe."""\n', "dvc.yaml": DVC, "params.yaml": PARAMS}
        files |= {".gitignore": "/data\n/runs/*/*\n!/runs/*/environment.json\n/models\n.tapeline/\n.*.partial\n"}
        files |= {"runs/one/environment.json": '{"machine": {"cpu": "test"}}\n'}
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        made.build()
        return made

    def copy(self, folder: Path) -> "Registry":
        """Return a copy with its own remote, in an empty folder."""
        shutil.copytree(self.folder.parent, folder, dirs_exist_ok=True, symlinks=True)
        return Registry(folder / self.folder.name)

    def build(self, value: int = 1) -> None:
        """Run the stages with a new parameter value, commit, and push to the remote."""
        params = self.folder / "params.yaml"
        before = params.read_text()
        head, _, rest = before.partition("params: {value: ")
        params.write_text(f"{head}params: {{value: {value}}}{rest.partition('}')[2]}")
        self.dvc("repro", "--quiet", "export@one")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", f"value {value}")
        self.dvc("push", "--quiet")

    def versions(self, *values: int) -> None:
        """Build and register a version for each value: v1.0.0, v1.0.1, ..."""
        for value in values:
            self.build(value)
            self("registry", "register", "one")

    def __call__(self, *arguments: str, status: int = 0, **more: object) -> "subprocess.CompletedProcess[str]":
        """Run a `tapeline` command."""
        return self._call(*TAPELINE, *arguments, status=status, **more)

    def git(self, *arguments: str) -> str:
        return self._call("git", *arguments).stdout

    def dvc(self, *arguments: str) -> str:
        return self._call(sys.executable, "-m", "dvc", *arguments).stdout

    def gto(self, *arguments: str) -> str:
        return self._call(str(clones.BIN / "gto"), *arguments).stdout

    def commit_of(self, version: str = "v1.0.0") -> str:
        return self.git("rev-parse", f"one@{version}^{{commit}}").strip()

    def tags(self) -> list[str]:
        return self.git("tag").split()

    def state(self) -> dict[str, str]:
        """Return everything that a refused command must not change: refs, the tracked tree, outputs, served files."""
        found = {
            "refs": self.git("for-each-ref"),
            "head": self.git("symbolic-ref", "-q", "HEAD") if self._on_branch() else "",
        }
        for path in sorted(self.folder.rglob("*")):
            inner = path.relative_to(self.folder)
            if path.is_file() and inner.parts[0] not in (".git", ".dvc", ".tapeline"):
                found[inner.as_posix()] = hashlib.sha256(path.read_bytes()).hexdigest()
        return found

    def _on_branch(self) -> bool:
        return (self.folder / ".git" / "HEAD").read_text().startswith("ref:")

    def _call(self, *command: str, status: int = 0, timeout: float = 120) -> "subprocess.CompletedProcess[str]":
        environment = {**clones.environment(), "PYTHONPATH": str(clones.ROOT / "src")}
        answer = subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=timeout, check=False
        )
        assert answer.returncode == status, answer.stdout + answer.stderr
        return answer


def endless(tf: Any, registry: Registry) -> None:
    """Give the stages a graph that answers no example within the life of a test."""
    spec = tf.TensorSpec((None, 2), tf.float32, name="x")

    @tf.function(input_signature=[spec])
    def serve(x: Any) -> dict[str, Any]:
        [count] = tf.while_loop(lambda n: n < 10**15, lambda n: [n + 1], [tf.cast(tf.size(x), tf.int64)])
        return {"y": tf.reduce_sum(x, 1) + tf.cast(count, tf.float32)}

    tf.saved_model.save(tf.Module(), str(registry.folder / "graph"), signatures=serve.get_concrete_function())
