"""List the pipelines: what each one teaches, its data, whether it needs a network, and whether it is built.

DVC decides the last one in this process, by its own test of `dvc.lock` against code, parameters, data and outputs.
"""

import ast
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tapeline.config.ingest import TfdsSource
from tapeline.config.params import Params
from tapeline.config.project import Project
from tapeline.repository.dvc_errors import check_dependencies, check_files, in_one_line
from tapeline.repository.unseen import check_all
from tapeline.runtime import files
from tapeline.runtime.errors import InputError, plain

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
    from dvc.exceptions import NotDvcRepoError
    from dvc.repo import Repo, lock_repo

    with ExitStack() as stack:
        repo = None
        with in_one_line():
            try:
                if (project.folder / "dvc.yaml").exists():
                    check_files(project.folder)
                    repo = stack.enter_context(closing(Repo(str(project.folder), _wait_for_lock=True)))
                    stack.enter_context(lock_repo(repo))
            except NotDvcRepoError:
                repo = None
        for name, pipeline in params.pipelines.items():
            needed = [f"ingest@{pipeline.dataset}", *(f"{stage}@{name}" for stage in STAGES)]
            with in_one_line():
                stages = [repo.stage.load_one(str(project.folder / "dvc.yaml"), stage) for stage in needed if repo]
                check_dependencies(stages)
                if repo:
                    check_all(repo, [dep.fspath for stage in stages for dep in stage.deps])
                state = _state(stages) if stages else "no DVC project here"
            yield Entry(
                name=name,
                idea=idea(project.folder / pipeline.recipe),
                dataset=pipeline.dataset,
                network=isinstance(params.datasets[pipeline.dataset], TfdsSource),
                state=state,
            )


def _state(stages: list[Any]) -> str:
    """Return a pipeline's state; recorded outputs that are merely missing do not make it stale."""
    built = [any(out.hash_info for out in stage.outs) for stage in stages[1:]]
    if not any(built):
        return "not built"
    stale = [stage.name.split("@")[0] for stage in stages if stage.changed(allow_missing=True)]
    if stale:
        return f"stale: {', '.join(stale)}"
    return "up to date" if not any(stage.changed() for stage in stages) else "recorded, its files are not here"


def idea(recipe: Path) -> str:
    """Return the first line of a recipe's module docstring."""
    try:
        docstring = ast.get_docstring(ast.parse(files.read_bytes(recipe).decode()))
    except (OSError, InputError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return plain(f"unreadable: {error}")
    return (docstring or recipe.name).splitlines()[0]
