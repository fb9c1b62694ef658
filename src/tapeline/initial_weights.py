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
    from dvc.api import DVCFileSystem
    from dvc.exceptions import DvcException
    from dvc.scm import RevError

    target = project.local / "init_from" / tag
    weights = Path(folder, "runs", name, "train", "weights").as_posix()
    try:
        DVCFileSystem(str(project.folder), rev=tag).get(weights, str(target), recursive=True)
    except RevError:
        raise InputError(f"train.init_from is {tag!r}: there is no such tag; `git tag` lists those there are") from None
    except (DvcException, OSError) as error:
        raise InputError(f"train.init_from is {tag!r}: {weights} cannot be had: {str(error).splitlines()[0]}") from None
    return target
