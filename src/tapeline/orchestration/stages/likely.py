"""Guess in a millisecond whether a stage will run, so that its imports begin while DVC is being asked.

A wrong guess costs time and nothing else: DVC decides what is stale.
"""

from itertools import chain
from pathlib import Path

from tapeline.config.project import DVC_YAML, PARAMS, Project
from tapeline.orchestration.stages import forking
from tapeline.orchestration.stages.child import environment
from tapeline.runtime import files
from tapeline.runtime.environment import cores

LOCK = "dvc.lock"
SETTINGS = (PARAMS, DVC_YAML, "engine.lock")


def is_likely_stale(project: Project, pipeline: str) -> bool:
    """Return whether an output is missing, or settings or recipes were written after `dvc.lock` or the last note."""
    lock, noted = project.folder / LOCK, _note(project, pipeline)
    sources = chain((project.folder / name for name in SETTINGS), project.folder.glob("recipes/*.py"))
    outputs = (project.model(pipeline), project.run(pipeline, "train"), project.run(pipeline, "validate"))
    try:
        since = max(path.stat().st_mtime_ns for path in (lock, noted) if path.exists())
        written = any(source.stat().st_mtime_ns > since for source in sources if source.exists())
        return written or not all(path.exists() for path in (lock, *outputs))
    except (OSError, ValueError):  # neither a lock nor a note
        return True


def note_unchanged(project: Project, pipeline: str) -> None:
    """Note that DVC found nothing stale, if the guess is another: Git may have just written all files."""
    if is_likely_stale(project, pipeline):
        files.write_text(_note(project, pipeline), "")


def _note(project: Project, pipeline: str) -> Path:
    return project.local / "unchanged" / pipeline


def begin_imports() -> None:
    """Begin what stages import, on a core that has nothing else to do."""
    if cores() > 1:
        forking.prepare(environment())
