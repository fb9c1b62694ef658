"""List the pipelines: what each one teaches, its data, whether it needs a network, and whether it is built.

DVC decides the last one in this process, by its own test of `dvc.lock` against code, parameters, data and outputs.
"""

import ast
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tapeline.config.ingest import TfdsSource
from tapeline.config.params import Params
from tapeline.config.project import DVC_YAML, Project
from tapeline.repository import raw_data
from tapeline.repository.dvc_errors import check_files, in_one_line
from tapeline.runtime import files
from tapeline.runtime.errors import InputError, plain

if TYPE_CHECKING:
    from tapeline.repository.dvc.stage import Stage

STAGES = ("train", "validate", "export")


@dataclass(frozen=True)
class Entry:
    """One pipeline."""

    name: str
    idea: str
    """The first line of its recipe's docstring."""
    dataset: str
    network: bool
    """Whether its data comes from the TFDS catalogue."""
    state: str


def entries(project: Project, params: Params) -> Iterator[Entry]:
    """Yield the pipelines in the order of `params.yaml`.

    Raises `RunError` with DVC's message if DVC fails, `InputError` for a `.dvc` file that DVC overlooks.
    """
    states = _states(project, params)
    for name, pipeline in params.pipelines.items():
        yield Entry(
            name=name,
            idea=idea(project.folder / pipeline.recipe),
            dataset=pipeline.dataset,
            network=isinstance(params.datasets[pipeline.dataset], TfdsSource),
            state=states.get(name, "no DVC project here"),
        )


def _states(project: Project, params: Params) -> dict[str, str]:
    """Return each pipeline's state; nothing where there is no DVC project."""
    from tapeline.repository.dvc.exceptions import NotDvcRepoError
    from tapeline.repository.dvc.repository import Dvc

    file = project.folder / DVC_YAML
    if not file.exists():
        return {}
    check_files(project.folder)
    with in_one_line(), ExitStack() as stack:
        try:
            dvc = stack.enter_context(closing(Dvc(project.folder, wait=True, only_read=True)))
        except NotDvcRepoError:
            return {}
        stack.enter_context(dvc.locked())
        load = cache(dvc.stages_of(file))
        stages = {
            name: [load(f"ingest@{pipeline.dataset}"), *(load(f"{stage}@{name}") for stage in STAGES)]
            for name, pipeline in params.pipelines.items()
        }
        raw_data.check(dvc, _together(stages))
        built = {name: needed for name, needed in stages.items() if any(any(stage.recorded) for stage in needed[1:])}
        everything = _together(built)
        with dvc.examined(everything):
            changed = {stage for stage in everything if stage.is_stale()}
            upstream = [*everything, *(stage for stage in dvc.stages() if stage.is_raw_data)] if changed else []
            stale = {stage for stage in changed if stage.is_stale(missing_ok=True, upstream=upstream)}
        states = {name: _state(needed, changed, stale) for name, needed in built.items()}
        return dict.fromkeys(stages, "not built") | states


def _together(stages: "Mapping[str, list[Stage]]") -> "list[Stage]":
    """Return the stages of all pipelines, each once."""
    return list(dict.fromkeys(stage for needed in stages.values() for stage in needed))


def _state(stages: "list[Stage]", changed: "set[Stage]", stale: "set[Stage]") -> str:
    """Return a built pipeline's state; recorded files that are merely missing do not make it stale."""
    if found := [stage.name.split("@")[0] for stage in stages if stage in stale]:
        return f"stale: {', '.join(found)}"
    return "recorded, but its files are not here" if changed.intersection(stages) else "up to date"


def idea(recipe: Path) -> str:
    """Return the first line of a recipe's module docstring."""
    try:
        docstring = ast.get_docstring(ast.parse(files.read_bytes(recipe)))
    except (OSError, InputError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return plain(f"unreadable: {error}")
    return (docstring or recipe.name).splitlines()[0]
