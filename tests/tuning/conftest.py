"""A project folder with an ingested dataset and one pipeline, and `tapeline` called in it, in this process."""

import json
import signal
from pathlib import Path

import datasets
import pytest
import recipes
from ruamel.yaml import YAML

from tapeline.cli.main import main


class Folder:
    def __init__(self, folder: Path, capsys) -> None:
        self.folder, self._capsys = folder, capsys
        self.pipeline = {"dataset": "points", "recipe": "recipe.py", "needs": "data/points", "params": {}}
        self.pipeline |= {"train": {"epochs": 2, "batch_size": 8}, "validate": {"thresholds": {}}, "export": {}}
        self.pipeline["validate"]["thresholds"] = {"loss": {"max": 1e6}}

    def save(self, source: str = recipes.LINE, *edits: tuple[str, str]) -> "Folder":
        recipes.write(self.folder, source, *edits)
        source = {"source": "table", "needs": "points.csv", "features": {"x": ["x1", "x2"], "y": ["y"]}}
        params = {"datasets": {"points": source}, "pipelines": {"fit": self.pipeline}}
        with (self.folder / "params.yaml").open("w") as file:
            YAML().dump(json.loads(json.dumps(params)), file)
        return self

    def call(self, *arguments: str) -> tuple[int, list[str], str]:
        """Return the exit status, the lines on the standard output, and the standard error."""
        status = main(list(arguments))
        said = self._capsys.readouterr()
        return status, said.out.splitlines(), said.err

    def files(self) -> dict[str, int]:
        found = {p.relative_to(self.folder).as_posix(): p.stat().st_mtime_ns for p in self.folder.rglob("*")}
        return {name: time for name, time in found.items() if (self.folder / name).is_file() and ".pyc" not in name}


@pytest.fixture
def project(tmp_path, tf, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    datasets.points(tmp_path / "data" / "points", examples=64)
    yield Folder(tmp_path, capsys)
    for number, handler in before.items():
        signal.signal(number, handler)
