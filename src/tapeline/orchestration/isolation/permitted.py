"""What overrides may name: permission to start a run on a server is not permission to choose its code.

    check(tree, {"recipe": "recipes/other.py"})

A recipe is committed at the ref that is trained. What a run reads besides lies in the repository, links followed.
"""

import os
import posixpath
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tapeline.orchestration.isolation.worktree import Worktree
from tapeline.registry.initial_weights import REGISTERED
from tapeline.repository.git import Git
from tapeline.runtime.errors import InputError

READ = ("needs", "train.init_from")
"""The settings with a path that a run reads."""

REGULAR = ("100644", "100755")
"""How Git lists a file; a link has another mode."""


def check(tree: Worktree, overrides: Mapping[str, Any]) -> None:
    """Raise `InputError` for an override that names code or data from elsewhere, before anything has run."""
    git = Git(tree.project.folder)
    top = git.top()
    for key in ("recipe", *READ):
        if (value := overrides.get(key)) is None:
            continue
        if not isinstance(value, str) or not value.isprintable() or not value:
            raise InputError(f"overrides.{key} is {value!r}: it must be a path inside the repository")
        if key == "recipe":
            _check_committed(git, top, tree, value)
        elif key == "needs" or not REGISTERED.fullmatch(value):
            _check_inside(top, tree.project.folder, key, value)


def _check_committed(git: Git, top: Path, tree: Worktree, recipe: str) -> None:
    project = tree.project.folder.resolve().relative_to(top)
    path = posixpath.normpath(posixpath.join(project.as_posix(), recipe))
    listed = git.ask("--literal-pathspecs", "ls-tree", "-z", "--full-tree", tree.commit, "--", path) or ""
    about, _, name = listed.removesuffix("\0").partition("\t")
    if name != path or about.partition(" ")[0] not in REGULAR:
        raise InputError(
            f"overrides.recipe is {recipe!r}, which is not in commit {tree.commit[:7]}: a run trains a recipe "
            "committed at its ref; commit it there, or give another ref"
        )


def _check_inside(top: Path, folder: Path, key: str, path: str) -> None:
    if not Path(os.path.realpath(folder / path)).is_relative_to(os.path.realpath(top)):
        raise InputError(
            f"overrides.{key} is {path!r}, which leads out of the repository: a run reads only what is inside; change "
            f"{key} in params.yaml, and commit that"
        )
