"""`params.yaml`, typed and checked; every mistake is one line that says where, what came and what the rule is.

params = Params.load(project.folder)
params.pipeline("digits").train.batch_size
"""

import difflib
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from tapeline.errors import InputError
from tapeline.export.settings import ExportSettings
from tapeline.ingest.settings import IngestSettings
from tapeline.project import PARAMS
from tapeline.recipe_params import declared_params
from tapeline.registry_settings import RegistrySettings
from tapeline.train.settings import TrainSettings
from tapeline.validate.settings import ValidateSettings

Model = TypeVar("Model", bound=BaseModel)

NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")


def _named(entries: dict[str, Any]) -> dict[str, Any]:
    for name in entries:
        if not NAME.fullmatch(name):
            raise ValueError(
                f"{name!r} is no name: lower-case letters, digits and inner hyphens (it becomes a Git tag)"
            )
    return entries


class Environment(BaseModel):
    """The libraries that decide the bits. Another installed version is refused, not mixed in."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    tensorflow: str
    keras: str


class Pipeline(BaseModel):
    """A dataset, a recipe and their settings."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    dataset: str
    recipe: str
    """The recipe's file, relative to `params.yaml`, so that DVC sees what it depends on."""
    needs: str
    """One more input for train and validate; the dataset's folder again when there is none."""
    params: dict[str, Any]
    """The recipe's own hyperparameters, typed by its `Params`."""
    train: TrainSettings
    validate_: ValidateSettings = Field(alias="validate")
    export: ExportSettings


class Params(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    environment: Environment
    datasets: Annotated[dict[str, IngestSettings], AfterValidator(_named)]
    pipelines: Annotated[dict[str, Pipeline], AfterValidator(_named)]
    registry: RegistrySettings = RegistrySettings()

    @classmethod
    def load(cls, folder: Path) -> "Params":
        """Read and check `folder/params.yaml`. Raises `InputError` with the first mistake."""
        path = folder / PARAMS
        try:
            content = YAML(typ="safe").load(path.read_text(encoding="utf-8"))
        except YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            where = f", line {mark.line + 1}" if mark else ""
            raise InputError(f"{PARAMS}{where}: not YAML: {getattr(error, 'problem', error)}") from None
        if not isinstance(content, dict):
            raise InputError(f"{PARAMS} is empty: it needs environment, datasets and pipelines")
        params = checked(cls, content, where=PARAMS)
        for name, pipeline in params.pipelines.items():
            if pipeline.dataset not in params.datasets:
                known = _known(pipeline.dataset, params.datasets)
                raise InputError(
                    f"{PARAMS}: pipelines.{name}.dataset is {pipeline.dataset!r}: no such dataset; {known}"
                )
        for name in params.registry.models:
            if name not in params.pipelines:
                raise InputError(
                    f"{PARAMS}: registry.models has {name!r}: no such pipeline; {_known(name, params.pipelines)}"
                )
        return params

    def dataset(self, name: str) -> IngestSettings:
        """Return one dataset's settings. Raises `InputError` naming those there are."""
        if name not in self.datasets:
            raise InputError(f"no dataset {name!r} in {PARAMS}; {_known(name, self.datasets)}")
        return self.datasets[name]

    def pipeline(self, name: str) -> Pipeline:
        """Return one pipeline. Raises `InputError` naming those there are."""
        if name not in self.pipelines:
            raise InputError(f"no pipeline {name!r} in {PARAMS}; {_known(name, self.pipelines)}")
        return self.pipelines[name]


def check_recipe(folder: Path, name: str, pipeline: Pipeline) -> None:
    """Check a pipeline's hyperparameters against what its recipe declares, without running the recipe."""
    declared = declared_params(folder / pipeline.recipe)
    if declared is not None:
        checked(declared, pipeline.params, where=f"{PARAMS}: pipelines.{name}.params")


def checked(model: type[Model], content: Any, *, where: str) -> Model:
    """Return `content` as `model`, or raise `InputError` that names the first wrong key, its value and the rule.

    The check goes through JSON, so that a list is a tuple's natural form and yet "1" is no number.
    """
    try:
        return model.model_validate_json(json.dumps(content, default=str))
    except ValidationError as error:
        raise InputError(_first_mistake(error, model, where)) from None


def _first_mistake(error: ValidationError, model: type[BaseModel], where: str) -> str:
    mistakes = error.errors(include_url=False)
    first = next((mistake for mistake in mistakes if mistake["type"] == "extra_forbidden"), mistakes[0])
    key = ".".join(str(part) for part in first["loc"] if not _is_union_tag(part))
    separator = ": " if where == PARAMS else "."
    place = f"{where}{separator}{key}" if key else where
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    if first["type"] == "extra_forbidden":
        known = _known(str(first["loc"][-1]), _siblings(model, first["loc"]))
        return f"{place}: no such setting; {known}{more}"
    if first["type"] == "union_tag_invalid":
        return f"{place}.source is {first['ctx']['tag']!r}: must be one of {first['ctx']['expected_tags']}{more}"
    if first["type"] == "missing":
        return f"{place} is missing{more}"
    message = first["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    rule = message if message != first["msg"] else message[:1].lower() + message[1:]
    if first["type"] == "value_error":
        return f"{place}: {rule}{more}"
    return f"{place} is {json.dumps(first['input'], default=str)}: must be {rule}{more}"


def _is_union_tag(part: int | str) -> bool:
    return part in {"tfds", "builder", "images", "table", "dataset"}


def _siblings(model: type[BaseModel], location: tuple[int | str, ...]) -> Iterable[str]:
    """Return the settings that stand beside an unknown one, following the models down its path."""
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
        models = inner or tagged or models  # else `part` is a name that the user gave
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
    return f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(names)}"
