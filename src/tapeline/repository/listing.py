"""List the pipelines: what each one teaches, its data, whether it needs a network, and whether it is built.

DVC decides the last one in this process, by its own test of `dvc.lock` against code, parameters, data and outputs.
"""

import ast
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tapeline.config.ingest import TfdsSource
from tapeline.config.params import Params
from tapeline.config.project import Project
from tapeline.repository.dvc_errors import check_dependencies, check_files, in_one_line
from tapeline.repository.unseen import check_all
from tapeline.runtime import files
from tapeline.runtime.errors import InputError, plain

if TYPE_CHECKING:
    from tapeline.repository.dvc_internals import Stage

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
    from tapeline.repository.dvc_internals import Dvc, NotDvcRepoError

    with ExitStack() as stack:
        dvc: Dvc | None = None
        with in_one_line():
            try:
                if (project.folder / "dvc.yaml").exists():
                    check_files(project.folder)
                    dvc = stack.enter_context(closing(Dvc(project.folder, wait=True)))
                    stack.enter_context(dvc.locked())
            except NotDvcRepoError:
                dvc = None
        for name, pipeline in params.pipelines.items():
            needed = [f"ingest@{pipeline.dataset}", *(f"{stage}@{name}" for stage in STAGES)]
            with in_one_line():
                stages = [dvc.stage(project.folder / "dvc.yaml", stage) for stage in needed if dvc]
                check_dependencies(stages)
                if dvc:
                    check_all(dvc, [path for stage in stages for path in stage.dependencies])
                state = _state(stages) if stages else "no DVC project here"
            yield Entry(
                name=name,
                idea=idea(project.folder / pipeline.recipe),
                dataset=pipeline.dataset,
                network=isinstance(params.datasets[pipeline.dataset], TfdsSource),
                state=state,
            )


def _state(stages: "list[Stage]") -> str:
    """Return a pipeline's state; recorded outputs that are merely missing do not make it stale."""
    built = [any(stage.recorded) for stage in stages[1:]]
    if not any(built):
        return "not built"
    stale = [stage.name.split("@")[0] for stage in stages if stage.is_stale(missing_ok=True)]
    if stale:
        return f"stale: {', '.join(stale)}"
    return "up to date" if not any(stage.is_stale() for stage in stages) else "recorded, its files are not here"


def idea(recipe: Path) -> str:
    """Return the first line of a recipe's module docstring."""
    try:
        docstring = ast.get_docstring(ast.parse(files.read_bytes(recipe).decode()))
    except (OSError, InputError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return plain(f"unreadable: {error}")
    return (docstring or recipe.name).splitlines()[0]
