"""What a `dvc.lock` records about one pipeline: which bytes its stages read and made.

    recorded = Recorded.at(Git(folder), "HEAD", "digits", name="HEAD", cache=cache)
    recorded.model                 # the MD5 of models/digits
    recorded.metrics()             # from DVC's cache

The registry's authority on a version's bytes, and a run report's on earlier runs.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tapeline.config import engine_lock
from tapeline.config.project import PARAMS
from tapeline.parsing import json_text
from tapeline.repository import objects
from tapeline.repository.dvc_lock import LOCK, Entry, Lock, Stage
from tapeline.repository.git import Git
from tapeline.runtime import files
from tapeline.runtime.errors import InputError


@dataclass(frozen=True)
class Recorded:
    """The stages of one pipeline in one lock."""

    pipeline: str
    lock: Lock
    cache: Path | None = None
    """DVC's folder of files by MD5, from which `json` and `metrics` read."""

    @classmethod
    def read(cls, content: bytes | str, pipeline: str, *, name: str, cache: Path | None = None) -> "Recorded":
        """Read a lock; `name` says whose it is (`runs/brave-otter`). Raises `InputError` for an altered file."""
        return cls(pipeline, Lock.read(content, of=name), cache)

    @classmethod
    def at(cls, git: Git, commit: str, pipeline: str, *, name: str, cache: Path | None = None) -> "Recorded | None":
        """Return what a commit records in the folder that `git` works in; None if it records nothing.

        Raises `InputError` for an altered file, `RunError` if Git cannot read it.
        """
        content = git.blob(commit, f"./{LOCK}")
        return cls.read(content, pipeline, name=name, cache=cache) if content else None

    @property
    def name(self) -> str:
        """Whose record it is: the branch or commit."""
        return self.lock.name

    def out(self, stage: str, path: str) -> str:
        """Return an output's MD5 (with `.dir` for a folder). Raises `InputError` if the lock has none."""
        for out in self._stage(stage).outs:
            if out.path == path and out.md5 is not None:
                return self.lock.md5(out)
        raise InputError(f"{LOCK} records no {path} of {stage}: run `dvc repro export@{self.pipeline}` and commit it")

    @property
    def model(self) -> str:
        """The exported model's MD5."""
        return self.out(f"export@{self.pipeline}", f"models/{self.pipeline}")

    @property
    def predictions(self) -> str:
        """The MD5 of the predictions that validate recorded."""
        return self.out(f"validate@{self.pipeline}", f"runs/{self.pipeline}/validate/predictions.npz")

    def data(self, dataset: str) -> str:
        """Return a dataset's MD5."""
        return self.out(f"ingest@{dataset}", f"data/{dataset}")

    @property
    def dataset(self) -> str | None:
        """The dataset that the model was trained on; None if the record does not say which."""
        asked = self._training.read_from(PARAMS).get(f"pipelines.{self.pipeline}.dataset")
        below = [dep.path.removeprefix("data/") for dep in self._training.deps if dep.path.startswith("data/")]
        return str(asked) if asked else below[0] if len(below) == 1 else None

    def trained_on(self, dataset: str) -> str:
        """Return the MD5 that a dataset had when the model was trained."""
        dep = self._data_dependency(dataset)
        return self.lock.md5(dep) if dep and dep.md5 is not None else self.data(dataset)

    def training_data(self) -> str | None:
        """Return the MD5 of the dataset that the model was trained on; None if unknown. Raises as `Lock.md5` does."""
        dep = self._data_dependency(self.dataset) if self.dataset else None
        return self.lock.md5(dep) if dep else None

    def datasets(self) -> dict[str, str]:
        """Return the MD5 of every output of the model's ingest stages, by path."""
        stages = [stage for stage in self.chain() if stage.startswith("ingest@")]
        return {out.path: str(out.md5) for stage in stages for out in self.lock.stages[stage].outs}

    def parameters(self) -> dict[str, Any]:
        """Return every parameter that the pipeline's stages read, by key in `params.yaml`."""
        return self._read_from(PARAMS)

    def engine(self) -> dict[str, Any]:
        """Return the hash of the library code that each stage ran with, as in `engine.lock`."""
        return self._read_from(engine_lock.LOCK)

    def code(self) -> dict[str, str]:
        """Return the MD5 of every dependency that no stage of the chain produces, by path in the project."""
        stages = [self.lock.stages[stage] for stage in self.chain()]
        made = {out.path for stage in stages for out in stage.outs}
        deps = [dep for stage in stages for dep in stage.deps]
        return {dep.path: dep.md5 for dep in deps if dep.path not in made and dep.md5 is not None}

    def chain(self) -> list[str]:
        """Return the stages that produce the model, export last."""
        makers = {out.path: stage for stage, entry in self.lock.stages.items() for out in entry.outs}
        found: list[str] = []
        opened: set[str] = set()
        waiting = [(f"export@{self.pipeline}", False)]
        while waiting:  # no recursion: an altered lock may have cyclic stages, or chains of thousands
            stage, is_made = waiting.pop()
            if is_made:
                found.append(stage)
            elif stage in self.lock.stages and stage not in opened:
                opened.add(stage)
                waiting.append((stage, True))
                deps = self.lock.stages[stage].deps
                waiting += [(makers[dep.path], False) for dep in reversed(deps) if dep.path in makers]
        return found

    def metrics(self) -> dict[str, float]:
        """Return the tested metrics; empty when there are none, or the cache has lost them."""
        content = self.json(f"runs/{self.pipeline}/validate/metrics.json")
        return {name: value for name, value in content.items() if isinstance(value, int | float)}

    def json(self, path: str) -> dict[str, Any]:
        """Return the content of a JSON output; empty when there is none, or the cache has lost it."""
        md5 = next((self.lock.md5(out) for out in self.lock.outs() if out.path == path), None)
        file = self.cache / objects.place(md5) if md5 and self.cache else None
        if file is None or not file.exists():
            return {}
        try:
            return json_text.mapping(files.read_bytes(file))
        except json_text.NotJson as error:
            raise InputError(f"{path} of {self.name} is not JSON, so it was altered: {error}") from None

    def _stage(self, name: str) -> Stage:
        return self.lock.stages.get(name) or Stage()

    @property
    def _training(self) -> Stage:
        return self._stage(f"train@{self.pipeline}")

    def _data_dependency(self, dataset: str) -> Entry | None:
        found: Iterator[Entry] = (dep for dep in self._training.deps if dep.path == f"data/{dataset}")
        return next(found, None)

    def _read_from(self, file: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for stage in self.chain():
            found |= self.lock.stages[stage].read_from(file)
        return dict(sorted(found.items()))
