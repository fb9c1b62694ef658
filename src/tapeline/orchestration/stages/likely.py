"""Guess in a millisecond whether a stage will run, so that its imports begin while DVC is being asked.

A wrong guess costs time and nothing else: DVC decides what is stale.
"""

from itertools import chain

from tapeline.config.project import PARAMS, Project
from tapeline.orchestration.stages import forking
from tapeline.orchestration.stages.child import environment
from tapeline.runtime.environment import cores

SETTINGS = (PARAMS, "dvc.yaml", "engine.lock")


def is_likely_stale(project: Project, pipeline: str) -> bool:
    """Return whether settings or recipes were written after `dvc.lock`, or an output is missing."""
    outputs = (project.model(pipeline), project.run(pipeline, "train"), project.run(pipeline, "validate"))
    try:
        recorded = (project.folder / "dvc.lock").stat().st_mtime_ns
        sources = chain((project.folder / name for name in SETTINGS), project.folder.glob("recipes/*.py"))
        written = (source.stat().st_mtime_ns for source in sources if source.exists())
        return not all(path.exists() for path in outputs) or any(time > recorded for time in written)
    except OSError:
        return True


def begin_imports() -> None:
    """Begin what stages import, on a core that has nothing else to do."""
    if cores() > 1:
        forking.prepare(environment())
