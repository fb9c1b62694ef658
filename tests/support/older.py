"""A small project, brought back to the forms of the version that had `environment` in `params.yaml` and no `engine.lock`."""

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from dvc.utils.serialize import dumps_yaml
from ruamel.yaml import YAML

from tapeline.scaffold.init import init

STAGES = Path(__file__).parents[1] / "upgrade" / "dvc.yaml.older"
"""The stages of that version, as its file had them."""
ENVIRONMENT = """# My settings: houses.   Odd   spacing stays.

# The libraries that decide the bits: each stage checks them against what is installed.
environment:
  tensorflow: TENSORFLOW
  keras: KERAS

datasets:"""
OWN = """artifacts:
  iris: {path: models/iris, type: model}   # mine
plots:
  - rates: {template: simple}
"""


GITIGNORE = "# mine\n*.log\n__pycache__/"
"""It has no newline at its end."""


NAMES = ("iris", "averaged")
AVERAGED = """  averaged:
    dataset: iris
    recipe: recipes/iris.py
    needs: data/iris
    params: {learning_rate: 0.01, units: 8}
    train: {epochs: 2, batch_size: 8, ema: 0.9}
    validate: {}
    export: {}
"""


class Older:
    """A Git and DVC repository with two pipelines, trained and committed; the second one averages its weights."""

    def __init__(self, folder: Path, *, new: bool = True) -> None:
        """new: whether to make the project; else it is there, a copy of another one."""
        self.folder = folder
        if new:
            self._make()

    def _make(self) -> None:
        folder = self.folder
        init(folder, say=lambda line: None)
        self.git("config", "user.email", "test@example.org")
        self.git("config", "user.name", "Test")
        path = folder / "params.yaml"
        path.write_text(path.read_text().replace("epochs: 50", "epochs: 2") + AVERAGED)
        self.dvc("config", "core.analytics", "false")
        self.dvc("repro", "--quiet")
        self.commit("Trained")

    def age(self) -> None:
        """Bring every file back to its older form, and commit."""
        for name in [file for one in NAMES for file in (f"runs/{one}/train/run.json", f"models/{one}/model.json")]:
            content = json.loads((self.folder / name).read_text())
            content.get("run", content)["code"] = {"train/loop.py": "0" * 64}
            (self.folder / name).chmod(0o644)
            (self.folder / name).unlink()
            (self.folder / name).write_text(json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n")
        self.dvc(
            "commit", "--quiet", "--force", *(f"{stage}@{name}" for name in NAMES for stage in ("train", "export"))
        )
        libraries = {name: version(name) for name in ("tensorflow", "keras")}
        lock = YAML(typ="safe").load((self.folder / "dvc.lock").read_text())
        for name, entry in lock["stages"].items():
            entry["cmd"] = f"exec env PYTHONPATH=src python -m tapeline {name.replace('@', ' ')}"
            entry["deps"].append({"path": "src/tapeline/files.py", "hash": "md5", "md5": "0" * 32, "size": 1})
            entry["params"]["params.yaml"]["environment"] = libraries
            del entry["params"]["engine.lock"]
        (self.folder / "dvc.lock").write_text(dumps_yaml(lock))
        (self.folder / "engine.lock").unlink()
        (self.folder / "dvc.yaml").write_text(STAGES.read_text() + OWN)
        (self.folder / ".gitignore").write_text(GITIGNORE)
        ignore = self.folder / ".dvcignore"
        ignore.write_text(ignore.read_text().replace(".*.partial\n", ""))
        before = ENVIRONMENT.replace("TENSORFLOW", libraries["tensorflow"]).replace("KERAS", libraries["keras"])
        path = self.folder / "params.yaml"
        path.write_text(path.read_text().replace("datasets:", before, 1))
        self.commit("As it was")

    def git(self, *arguments: str) -> str:
        return self._call("git", *arguments)

    def dvc(self, *arguments: str) -> str:
        return self._call(sys.executable, "-P", "-m", "dvc", *arguments)

    def commit(self, message: str) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)

    def _call(self, *command: str) -> str:
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
        environment = {**os.environ, "PATH": path}
        answer = subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)
        assert answer.returncode == 0, answer.stdout + answer.stderr
        return answer.stdout
