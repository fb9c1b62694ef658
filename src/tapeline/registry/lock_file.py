"""What a commit's `dvc.lock` records of one model: the authority on which bytes a version has."""

from dataclasses import dataclass
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from tapeline.errors import InputError
from tapeline.registry.repository import Repository

LOCK = "dvc.lock"


@dataclass(frozen=True)
class Recorded:
    """The stages of one pipeline in one commit's lock."""

    name: str
    stages: dict[str, dict[str, Any]]

    def out(self, stage: str, path: str) -> str:
        """Return an out's MD5 (`.dir` for a folder). Raises `InputError` when the lock has none."""
        for out in self.stages.get(stage, {}).get("outs", ()):
            if out["path"] == path:
                return str(out["md5"])
        raise InputError(f"{LOCK} records no {path} of {stage}: run `dvc repro export@{self.name}` and commit it")

    @property
    def model(self) -> str:
        """The exported model's MD5."""
        return self.out(f"export@{self.name}", f"models/{self.name}")

    @property
    def predictions(self) -> str:
        """The MD5 of what validate recorded."""
        return self.out(f"validate@{self.name}", f"runs/{self.name}/validate/predictions.npz")

    def data(self, dataset: str) -> str:
        """Return a dataset's MD5."""
        return self.out(f"ingest@{dataset}", f"data/{dataset}")

    def datasets(self) -> dict[str, str]:
        """Return the MD5 of every out of the ingest stages that the model comes from, by its path."""
        stages = [stage for stage in self.chain() if stage.startswith("ingest@")]
        return {out["path"]: str(out["md5"]) for stage in stages for out in self.stages[stage].get("outs", ())}

    def parameters(self) -> dict[str, Any]:
        """Return every parameter that the pipeline's stages read, by its key in `params.yaml`."""
        found: dict[str, Any] = {}
        for stage in self.chain():
            for values in self.stages[stage].get("params", {}).values():
                found |= values
        return dict(sorted(found.items()))

    def code(self) -> dict[str, str]:
        """Return the MD5 of every dependency that no stage of the chain makes, by its path in the project."""
        made = {out["path"] for stage in self.chain() for out in self.stages[stage].get("outs", ())}
        deps = [dep for stage in self.chain() for dep in self.stages[stage].get("deps", ())]
        return {dep["path"]: dep["md5"] for dep in deps if dep["path"] not in made and "md5" in dep}

    def chain(self) -> list[str]:
        """Return the stages that make the model, the export last."""
        makers = {out["path"]: stage for stage, entry in self.stages.items() for out in entry.get("outs", ())}
        found: list[str] = []

        def follow(stage: str) -> None:
            for dep in self.stages.get(stage, {}).get("deps", ()):
                if (maker := makers.get(dep["path"])) and maker not in found:
                    follow(maker)
            if stage in self.stages and stage not in found:
                found.append(stage)

        follow(f"export@{self.name}")
        return found


def recorded(repository: Repository, commit: str, name: str) -> Recorded:
    """Return what a commit's `dvc.lock` has. Raises `InputError` when there is none, or a cut one."""
    text = repository.read(commit, LOCK)
    if text is None:
        raise InputError(f"commit {commit[:10]} has no {LOCK}: run `dvc repro export@{name}` and commit it")
    try:
        stages = YAML(typ="safe").load(text)["stages"]
    except (YAMLError, KeyError, TypeError):
        raise InputError(f"{LOCK} of commit {commit[:10]} was cut or altered: `tapeline repair` mends it") from None
    return Recorded(name, stages)
