"""Find the weights that `train.init_from` names: a folder of this project, or a registered model's."""

import re
from pathlib import Path

from tapeline.errors import InputError
from tapeline.project import Project

REGISTERED = re.compile(r"(?:(?P<folder>[\w./-]+)=)?(?P<name>[a-z0-9-]+)@v\d+\.\d+\.\d+")
"""GTO's tag of a version; an artifact of a folder below the repository's root has that folder in front."""


def initial_weights(project: Project, source: str) -> Path:
    """Return the folder with the weights, brought from DVC's cache or remote for a registered model.

    Raises `InputError` for a folder or a tag that is not there.
    """
    if match := REGISTERED.fullmatch(source):
        return _registered(project, source, match["folder"] or "", match["name"])
    folder = project.folder / source
    if not folder.is_dir():
        raise InputError(
            f"train.init_from is {source!r}: neither a folder such as runs/NAME/train/weights nor a version NAME@v1.0.0"
        )
    return folder


def _registered(project: Project, tag: str, folder: str, name: str) -> Path:
    """Bring what the tag's `dvc.lock` records; nothing whose bytes are others."""
    from tapeline.registry import lock_file
    from tapeline.registry.repository import Repository
    from tapeline.registry.store import Store

    here = Repository(project.folder)
    if tag not in here.tag_names():
        raise InputError(f"train.init_from is {tag!r}: there is no such tag; `git tag` lists those there are")
    try:
        recorded = lock_file.recorded(Repository(here.top / folder), here.git.commit_of(f"refs/tags/{tag}"), name)
        weights = recorded.out(f"train@{name}", f"runs/{name}/train/weights")
        return Store(project.folder).kept(weights, project.local / "init_from" / tag)
    except InputError as error:
        raise InputError(f"train.init_from is {tag!r}: {error}") from None
