"""What a commit records of a pipeline: its `dvc.lock`, and the metrics that DVC's cache still has."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tapeline.git import Git

LOCK = "dvc.lock"


@dataclass(frozen=True)
class Record:
    """One `dvc.lock`, by the name of whatever it belongs to (`runs/brave-otter`)."""

    name: str
    stages: dict[str, Any]
    cache: Path

    @classmethod
    def of(cls, text: str, *, name: str, cache: Path) -> "Record":
        """Read a `dvc.lock`; `cache` is where DVC keeps files by their MD5."""
        return cls(name, (YAML(typ="safe").load(text) or {}).get("stages", {}), cache)

    @classmethod
    def at(cls, git: Git, commit: str, *, name: str, cache: Path) -> "Record | None":
        """Return what a commit records in the folder that `git` works in; None where it records nothing."""
        text = git.ask("show", f"{commit}:./{LOCK}")
        return cls.of(text, name=name, cache=cache) if text else None

    def out(self, path: str) -> str | None:
        """Return the MD5 of an out."""
        outs = (out for stage in self.stages.values() for out in stage.get("outs", ()))
        return next((str(out["md5"]) for out in outs if out["path"] == path), None)

    def data(self, pipeline: str) -> str | None:
        """Return the MD5 of the data that a pipeline was trained on: its train stage's first dependency."""
        deps = self.stages.get(f"train@{pipeline}", {}).get("deps", ())
        return next((str(dep["md5"]) for dep in deps if dep["path"].lstrip("./").startswith("data/")), None)

    def metrics(self, pipeline: str) -> dict[str, float]:
        """Return the tested metrics; empty when there are none, or the cache has lost them."""
        content = self.json(f"runs/{pipeline}/validate/metrics.json")
        return {name: value for name, value in content.items() if isinstance(value, int | float)}

    def json(self, path: str) -> dict[str, Any]:
        """Return the content of an out that is one JSON file; empty when there is none, or the cache has lost it."""
        md5 = self.out(path)
        file = self.cache / md5[:2] / md5[2:] if md5 else None
        if file is None or not file.exists():
            return {}
        content: dict[str, Any] = json.loads(file.read_bytes())
        return content
