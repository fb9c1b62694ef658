"""What a commit records about a pipeline: its `dvc.lock`, and the metrics that DVC's cache still has."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tapeline.parsing import json_text
from tapeline.repository import dvc_lock
from tapeline.repository.dvc_lock import LOCK, MD5
from tapeline.repository.git import Git
from tapeline.runtime import files
from tapeline.runtime.errors import InputError


@dataclass(frozen=True)
class Record:
    """One `dvc.lock`; `name` is the branch or commit that it belongs to (`runs/brave-otter`)."""

    name: str
    stages: dict[str, Any]
    cache: Path

    @classmethod
    def of(cls, text: bytes | str, *, name: str, cache: Path) -> "Record":
        """Read a `dvc.lock`; `cache` is DVC's folder of files by MD5. Raises `InputError` for an altered file."""
        try:
            return cls(name, dvc_lock.stages(text), cache)
        except ValueError as error:
            raise InputError(f"{LOCK} of {name} was truncated or altered: {error}") from None

    @classmethod
    def at(cls, git: Git, commit: str, *, name: str, cache: Path) -> "Record | None":
        """Return what a commit records in the folder that `git` works in; None if it records nothing."""
        text = git.ask("show", f"{commit}:./{LOCK}")
        return cls.of(text, name=name, cache=cache) if text else None

    def out(self, path: str) -> str | None:
        """Return the MD5 of an output. Raises `InputError` if malformed, since it becomes a path in the cache."""
        outs = (out for stage in self.stages.values() for out in stage.get("outs", ()))
        return next((self._md5(out) for out in outs if out["path"] == path), None)

    def data(self, pipeline: str) -> str | None:
        """Return the MD5 of the data that a pipeline was trained on: of the dataset that its parameters name.

        If the record does not name one, it is the only dependency below `data/`. Raises `InputError` as `out` does.
        """
        stage = self.stages.get(f"train@{pipeline}", {})
        names = (values.get(f"pipelines.{pipeline}.dataset") for values in stage.get("params", {}).values())
        deps = {dep["path"]: dep for dep in stage.get("deps", ())}
        below = [path for path in deps if path.startswith("data/")]
        path = next((f"data/{name}" for name in names if name), below[0] if len(below) == 1 else "")
        return self._md5(deps[path]) if path in deps else None

    def _md5(self, entry: dict[str, Any]) -> str:
        md5 = str(entry.get("md5"))
        if not MD5.fullmatch(md5):
            raise InputError(f"{LOCK} of {self.name}: {entry['path']} has {md5!r}, which is not an MD5: it was altered")
        return md5

    def metrics(self, pipeline: str) -> dict[str, float]:
        """Return the tested metrics; empty when there are none, or the cache has lost them."""
        content = self.json(f"runs/{pipeline}/validate/metrics.json")
        return {name: value for name, value in content.items() if isinstance(value, int | float)}

    def json(self, path: str) -> dict[str, Any]:
        """Return the content of a JSON output; empty when there is none, or the cache has lost it."""
        md5 = self.out(path)
        file = self.cache / md5[:2] / md5[2:] if md5 else None
        if file is None or not file.exists():
            return {}
        try:
            return json_text.mapping(files.read_bytes(file))
        except json_text.NotJson as error:
            raise InputError(f"{path} of {self.name} is not JSON, so it was altered: {error}") from None
