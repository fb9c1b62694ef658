"""What a commit's `dvc.lock` records about one model: the authority on which bytes a version has."""

from dataclasses import dataclass
from typing import Any

from tapeline.config import engine_lock
from tapeline.config.project import PARAMS
from tapeline.registry.repository import Repository
from tapeline.repository import dvc_lock
from tapeline.repository.dvc_lock import LOCK
from tapeline.runtime.errors import InputError

__all__ = ["LOCK", "Recorded", "recorded"]


@dataclass(frozen=True)
class Recorded:
    """The stages of one pipeline in one commit's lock."""

    name: str
    stages: dict[str, dict[str, Any]]

    @classmethod
    def of(cls, text: bytes | str, name: str, *, of: str) -> "Recorded":
        """Read a commit's lock. Raises `InputError` for a truncated or altered one."""
        try:
            return cls(name, dvc_lock.stages(text))
        except ValueError as error:
            raise InputError(
                f"{LOCK} of {of} was truncated or altered ({error}): `tapeline repair` repairs it"
            ) from None

    def out(self, stage: str, path: str) -> str:
        """Return an output's MD5 (with `.dir` for a folder). Raises `InputError` if the lock has none."""
        for out in self.stages.get(stage, {}).get("outs", ()):
            if out["path"] == path and "md5" in out:
                return str(out["md5"])
        raise InputError(f"{LOCK} records no {path} of {stage}: run `dvc repro export@{self.name}` and commit it")

    @property
    def model(self) -> str:
        """The exported model's MD5."""
        return self.out(f"export@{self.name}", f"models/{self.name}")

    @property
    def predictions(self) -> str:
        """The MD5 of the predictions that validate recorded."""
        return self.out(f"validate@{self.name}", f"runs/{self.name}/validate/predictions.npz")

    def data(self, dataset: str) -> str:
        """Return a dataset's MD5."""
        return self.out(f"ingest@{dataset}", f"data/{dataset}")

    def trained_on(self, dataset: str) -> str:
        """Return the MD5 that a dataset had when the model was trained."""
        deps = self.stages.get(f"train@{self.name}", {}).get("deps", ())
        return next(
            (str(dep["md5"]) for dep in deps if dep["path"] == f"data/{dataset}" and "md5" in dep), ""
        ) or self.data(dataset)

    def datasets(self) -> dict[str, str]:
        """Return the MD5 of every output of the model's ingest stages, by path."""
        stages = [stage for stage in self.chain() if stage.startswith("ingest@")]
        return {out["path"]: str(out.get("md5")) for stage in stages for out in self.stages[stage].get("outs", ())}

    def parameters(self) -> dict[str, Any]:
        """Return every parameter that the pipeline's stages read, by key in `params.yaml`."""
        return self._read_from(PARAMS)

    def engine(self) -> dict[str, Any]:
        """Return the hash of the library code that each stage ran with, as in `engine.lock`."""
        return self._read_from(engine_lock.LOCK)

    def _read_from(self, file: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for stage in self.chain():
            found |= self.stages[stage].get("params", {}).get(file, {})
        return dict(sorted(found.items()))

    def code(self) -> dict[str, str]:
        """Return the MD5 of every dependency that no stage of the chain produces, by path in the project."""
        made = {out["path"] for stage in self.chain() for out in self.stages[stage].get("outs", ())}
        deps = [dep for stage in self.chain() for dep in self.stages[stage].get("deps", ())]
        return {dep["path"]: dep["md5"] for dep in deps if dep["path"] not in made and "md5" in dep}

    def chain(self) -> list[str]:
        """Return the stages that produce the model, export last."""
        makers = {out["path"]: stage for stage, entry in self.stages.items() for out in entry.get("outs", ())}
        found: list[str] = []
        opened: set[str] = set()
        waiting = [(f"export@{self.name}", False)]
        while waiting:  # no recursion: an altered lock may have cyclic stages, or chains of thousands
            stage, is_made = waiting.pop()
            if is_made:
                found.append(stage)
            elif stage in self.stages and stage not in opened:
                opened.add(stage)
                waiting.append((stage, True))
                deps = self.stages[stage].get("deps", ())
                waiting += [(makers[dep["path"]], False) for dep in reversed(deps) if dep["path"] in makers]
        return found


def recorded(repository: Repository, commit: str, name: str) -> Recorded:
    """Return the content of a commit's `dvc.lock`. Raises `InputError` if it is missing or truncated."""
    text = repository.read(commit, LOCK)
    if text is None:
        raise InputError(f"commit {commit[:10]} has no {LOCK}: run `dvc repro export@{name}` and commit it")
    return Recorded.of(text, name, of=f"commit {commit[:10]}")
