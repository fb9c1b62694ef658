"""Advice for a `dvc.lock` that a run has changed because it was recorded on another machine type."""

from tapeline.config.project import Project
from tapeline.repository import described
from tapeline.repository.dvc_lock import LOCK
from tapeline.repository.git import Git
from tapeline.repository.machines import compare, recorded_machine
from tapeline.runtime.environment import machine


def advice(project: Project, pipeline: str) -> str:
    """Return two lines if HEAD's `dvc.lock` is from another machine type and the working tree's differs.

    Empty if nothing is committed, or nothing differs. Raises `InputError` outside Git.
    """
    recorded = recorded_machine(project.folder, pipeline)
    if recorded is None or not (found := compare(recorded, machine())).differing:
        return ""
    if Git(project.folder).ask("diff", "--quiet", "HEAD", "--", LOCK) is not None:
        return ""
    changed = f"{LOCK} {described.path(pipeline)}"
    return (
        f"dvc.lock has changed, as expected: HEAD's was recorded on another machine type ({found})\n"
        f"`git checkout {changed}` keeps that record; commit them to record this machine's results instead"
    )
