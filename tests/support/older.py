"""A small project, brought back to the forms of the version that had `environment` in `params.yaml` and no `engine.lock`."""

import json
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


class Older:
    """A Git and DVC repository with the pipeline `iris`, trained and committed, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        init(folder, say=lambda line: None)
        self.git("config", "user.email", "test@example.org")
        self.git("config", "user.name", "Test")
        path = folder / "params.yaml"
        path.write_text(path.read_text().replace("epochs: 50", "epochs: 2"))
        self.dvc("config", "core.analytics", "false")
        self.dvc("repro", "--quiet")
        self.commit("Trained")

    def age(self) -> None:
        """Bring every file back to its older form, and commit."""
        for name in ("runs/iris/train/run.json", "models/iris/model.json"):
            content = json.loads((self.folder / name).read_text())
            content.get("run", content)["code"] = {"train/loop.py": "0" * 64}
            (self.folder / name).chmod(0o644)
            (self.folder / name).unlink()
            (self.folder / name).write_text(json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n")
        self.dvc("commit", "--quiet", "--force", "train@iris", "export@iris")
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
        answer = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        assert answer.returncode == 0, answer.stdout + answer.stderr
        return answer.stdout
