"""Check a flow's pipeline before anything starts.

    python pipeline.py digits       # status 1 and one line for an error; by the `tapeline` of PYTHONPATH

Nothing is imported from this folder, so that a worktree is checked by its own code.
"""

import sys
from pathlib import Path

from tapeline.config import engine_lock
from tapeline.config.params import Params, check_recipe
from tapeline.config.project import PARAMS, Project
from tapeline.runtime.errors import InputError


def checked(name: str | None, *, start: Path | None = None) -> Project:
    """Return the project of the working directory (or of `start`) if `name` is a pipeline that can be run there.

    Raises `InputError` for every error that can be found without running a stage; other pipelines' errors are ignored.
    """
    project = Project.find(start)
    if name is None:
        known, _ = Params.sound(project.folder)
        raise InputError(f"--pipeline is missing: {PARAMS} has {', '.join(sorted(known.pipelines))}")
    params = Params.load_for(project.folder, pipeline=name)
    pipeline = params.pipeline(name)
    check_recipe(project.folder, name, pipeline)
    engine_lock.check(project.folder, *engine_lock.STAGES)
    return project


if __name__ == "__main__":
    try:
        checked(sys.argv[1])
    except InputError as mistake:
        sys.exit(str(mistake))
