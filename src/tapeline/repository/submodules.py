"""Inputs in a Git submodule: a worktree or a clone of the repository does not have its files."""

import os
from pathlib import Path

from tapeline.config.params import Params
from tapeline.repository.git import Git
from tapeline.runtime.errors import InputError

GITLINK = "160000 "
"""How Git's index lists a submodule."""


def check(folder: Path, pipeline: str) -> None:
    """Raise `InputError` if the recipe or the data of a pipeline are in a submodule of the checkout around `folder`.

    A mistake in `params.yaml` is left to who reads it next.
    """
    git = Git(folder)
    top = git.top()
    if not (top / ".gitmodules").exists():
        return
    try:
        params = Params.load_for(folder, pipeline=pipeline)
        settings = params.pipeline(pipeline)
    except InputError:
        return
    entries = (entry.partition("\t") for entry in git("ls-files", "--stage", "-z", ":/").split("\0"))
    modules = [folder / name for about, _, name in entries if about.startswith(GITLINK)]
    for path in (settings.recipe, params.dataset(settings.dataset).needs, settings.needs):
        for module in modules:
            if Path(os.path.normpath(folder / path)).is_relative_to(os.path.normpath(module)):
                raise InputError(
                    f"{path} is in the Git submodule {os.path.relpath(module, folder)}, whose files neither a worktree "
                    "nor a clone has: commit it in this repository, or `dvc import` it from the other one"
                )
