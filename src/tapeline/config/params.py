"""`params.yaml`, typed and checked; every mistake is one line with the place, the value and the rule.

params = Params.load(project.folder)
params.pipeline("digits").train.batch_size
"""

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from tapeline.config.export import ExportSettings
from tapeline.config.ingest import IngestSettings, Needs
from tapeline.config.mistakes import mistakes_in
from tapeline.config.places import overlaps
from tapeline.config.project import PARAMS
from tapeline.config.recipe_params import declared_params
from tapeline.config.registry import RegistrySettings
from tapeline.config.train import TrainSettings
from tapeline.config.validate import ValidateSettings
from tapeline.parsing import yaml_text
from tapeline.runtime import files
from tapeline.runtime.errors import InputError

Model = TypeVar("Model", bound=BaseModel)

OLD = "environment"
"""The section in which older versions kept the libraries' versions."""

NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")


def _named(entries: dict[str, Any]) -> dict[str, Any]:
    for name in entries:
        if not NAME.fullmatch(name):
            raise ValueError(
                f"{name!r} is not a name: use lower-case letters, digits and inner hyphens (it becomes a Git tag)"
            )
    return entries


class Pipeline(BaseModel):
    """A dataset, a recipe and their settings."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    dataset: str
    recipe: str
    """The recipe's file, relative to `params.yaml`, so that DVC can track it as a dependency."""
    needs: Needs
    """An additional dependency of train and validate, a file or a folder; the dataset's own folder if there is none."""
    params: dict[str, Any]
    """The recipe's own hyperparameters, typed by its `Params`."""
    train: TrainSettings
    validate_: ValidateSettings = Field(alias="validate")
    export: ExportSettings


class Params(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    datasets: Annotated[dict[str, IngestSettings], AfterValidator(_named)]
    pipelines: Annotated[dict[str, Pipeline], AfterValidator(_named)]
    registry: RegistrySettings = RegistrySettings()

    @classmethod
    def load(cls, folder: Path) -> "Params":
        """Read and check `folder/params.yaml`. Raises `InputError` with the first mistake."""
        return cls._checked(_content(folder), folder)

    @classmethod
    def sound(cls, folder: Path, *, text: str | None = None) -> "tuple[Params, dict[str, str]]":
        """Return the valid datasets and pipelines, and the first mistake of each invalid one.

        text: the content of `params.yaml`, as of another commit, instead of the folder's.
        Mistakes are keyed by `datasets.NAME` and `pipelines.NAME`. Raises `InputError` for a mistake elsewhere.
        """
        content = _content(folder, text)
        mistakes: dict[str, str] = {}
        if not _has_entries(content):
            return cls._checked(content, folder), mistakes
        lost = overlaps(folder, _needs(content["datasets"]))
        mistakes.update({f"datasets.{name}": f"{PARAMS}: {said}" for name, said in lost.items()})
        for kind in ("datasets", "pipelines"):
            for name, entry in list(content[kind].items()):
                alone: dict[str, Any] = {"datasets": {}, "pipelines": {}}
                try:
                    checked(cls, {**alone, kind: {name: entry}}, where=PARAMS)
                    if kind == "pipelines":
                        _check_dataset(name, entry["dataset"], content["datasets"], mistakes)
                except InputError as error:
                    mistakes[f"{kind}.{name}"] = str(error)
        for key in mistakes:
            kind, name = key.split(".", 1)
            if kind == "pipelines":
                del content[kind][name]
                content.get("registry", {}).get("models", {}).pop(name, None)
        for key in mistakes:
            kind, name = key.split(".", 1)
            if kind == "datasets":
                del content[kind][name]
        return cls._checked(content, folder), mistakes

    @classmethod
    def load_for(cls, folder: Path, *, pipeline: str = "", dataset: str = "", text: str | None = None) -> "Params":
        """Read what one pipeline or dataset needs. Raises `InputError` for its mistakes, not for those of others.

        text: as in `sound`.
        """
        params, mistakes = cls.sound(folder, text=text)
        for mistake in (mistakes.get(f"pipelines.{pipeline}"), mistakes.get(f"datasets.{dataset}")):
            if mistake:
                raise InputError(mistake)
        return params

    @classmethod
    def _checked(cls, content: Any, folder: Path) -> "Params":
        params = checked(cls, content, where=PARAMS)
        for mistake in overlaps(folder, _needs(content["datasets"])).values():
            raise InputError(f"{PARAMS}: {mistake}")
        for name, pipeline in params.pipelines.items():
            _check_dataset(name, pipeline.dataset, params.datasets, {})
        for name in params.registry.models:
            if name not in params.pipelines:
                raise InputError(
                    f"{PARAMS}: registry.models has {name!r}: no such pipeline; {_known(name, params.pipelines)}"
                )
        return params

    def dataset(self, name: str) -> IngestSettings:
        """Return one dataset's settings. Raises `InputError` that lists the known names."""
        if name not in self.datasets:
            raise InputError(f"no dataset {name!r} in {PARAMS}; {_known(name, self.datasets)}")
        return self.datasets[name]

    def pipeline(self, name: str) -> Pipeline:
        """Return one pipeline. Raises `InputError` that lists the known names."""
        if name not in self.pipelines:
            raise InputError(f"no pipeline {name!r} in {PARAMS}; {_known(name, self.pipelines)}")
        return self.pipelines[name]


def _content(folder: Path, text: str | None = None) -> dict[str, Any]:
    """Return the content of the file, or of `text`. Raises `InputError` unless it is a YAML mapping."""
    try:
        content = yaml_text.parsed(files.read_bytes(folder / PARAMS) if text is None else text)
    except yaml_text.NotYaml as error:
        raise InputError(f"{PARAMS}{error.where}: not YAML: {error}") from None
    if not isinstance(content, dict):
        what = "is empty" if content is None else "is no mapping"
        raise InputError(f"{PARAMS} {what}: it needs datasets and pipelines")
    for section in ("datasets", "pipelines"):
        names = content.get(section)
        if wrong := [name for name in names if not isinstance(name, str)] if isinstance(names, dict) else []:
            said = json.dumps(wrong[0], default=str)
            raise InputError(f'{PARAMS}: {section}: {said} is not text to YAML: write "{said}"')
    if OLD in content:
        raise InputError(f"{PARAMS}: {OLD} is from an older Tapeline: `tapeline upgrade` moves it to engine.lock")
    return content


def _has_entries(content: Mapping[str, Any]) -> bool:
    """Return whether the sections are mappings, so that their entries can be checked one by one."""
    registry = content.get("registry", {})
    models = registry.get("models", {}) if isinstance(registry, dict) else None
    sections = (content.get("datasets"), content.get("pipelines"), models)
    return all(isinstance(section, dict) and all(isinstance(name, str) for name in section) for section in sections)


def _needs(datasets: Mapping[str, Any]) -> dict[str, str]:
    """Return what each dataset needs, also of those that have a mistake elsewhere."""
    given = {name: entry.get("needs") for name, entry in datasets.items() if isinstance(entry, dict)}
    return {name: needs for name, needs in given.items() if isinstance(needs, str) and "\0" not in needs}


def _check_dataset(pipeline: str, dataset: str, known: Iterable[str], mistakes: Mapping[str, str]) -> None:
    """Raise `InputError` for a pipeline whose dataset is missing or invalid."""
    if dataset not in known:
        raise InputError(
            f"{PARAMS}: pipelines.{pipeline}.dataset is {dataset!r}: no such dataset; {_known(dataset, known)}"
        )
    if mistake := mistakes.get(f"datasets.{dataset}"):
        raise InputError(mistake)


def check_recipe(folder: Path, name: str, pipeline: Pipeline) -> None:
    """Check a pipeline's hyperparameters against what its recipe declares, without running the recipe."""
    declared = declared_params(folder / pipeline.recipe)
    if declared is not None:
        checked(declared, pipeline.params, where=f"{PARAMS}: pipelines.{name}.params")


def checked(model: type[Model], content: Any, *, where: str) -> Model:
    """Return `content` as `model`, or raise `InputError` with the first wrong key, its value and the rule.

    Validation goes through JSON, where a list is accepted as a tuple but "1" is not accepted as a number.
    """
    try:
        text = json.dumps(content, default=str)
    except (TypeError, ValueError, RecursionError) as error:  # a date as a key, a list inside of itself
        raise InputError(f"{where}: not values that JSON can hold: {error}") from None
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        raise InputError(_first_mistake(error, content, model, where)) from None


def _first_mistake(error: ValidationError, content: Any, model: type[BaseModel], where: str) -> str:
    first, *others = mistakes_in(error, content)
    said = first.told(where + (": " if where == PARAMS else "."))
    if first.kind == "extra_forbidden":
        said += f"; {_known(str(first.location[-1]), _siblings(model, first.location))}"
    return said + (f" (and {len(others)} more mistake{'s' * (len(others) > 1)})" if others else "")


def _siblings(model: type[BaseModel], location: tuple[int | str, ...]) -> Iterable[str]:
    """Return the known settings at the place of an unknown one, following the models down its path."""
    models = [model]
    for part in location[:-1]:
        inner = [
            found
            for outer in models
            for name, info in outer.model_fields.items()
            if part in (name, info.alias)
            for found in _models(info.annotation)
        ]
        tagged = [outer for outer in models if part in getattr(_annotation(outer, "source"), "__args__", ())]
        models = inner or tagged or models  # otherwise `part` is a user-defined name
    return [info.alias or name for found in models for name, info in found.model_fields.items()]


def _models(annotation: Any) -> list[type[BaseModel]]:
    """Return the models in an annotation such as `dict[str, X]`, `X | None` or `X | Y`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for inner in getattr(annotation, "__args__", ()) for model in _models(inner)]


def _annotation(model: type[BaseModel], name: str) -> Any:
    return model.model_fields[name].annotation if name in model.model_fields else None


def _known(name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1)
    if near:
        return f"did you mean {near[0]!r}?"
    return f"choose from {', '.join(names)}" if names else "there are none"
