"""Raw data: what stages depend on and `dvc add` or `dvc import` has put into DVC, wherever in the repository it is.

with closing(Dvc(folder)) as dvc, dvc.locked():
    raw_data.needed(dvc, dvc.upstream(dvc.stage(folder / "dvc.yaml", "export@digits")))
"""

import os
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tapeline.repository.dvc_errors import check_dependencies
from tapeline.repository.unseen import check_all

if TYPE_CHECKING:
    from tapeline.repository.dvc.repository import Dvc
    from tapeline.repository.dvc.stage import Stage


def needed(dvc: "Dvc", stages: "Collection[Stage]") -> "list[Stage]":
    """Return the raw data that stages depend on, each as the stage of its `.dvc` file; also through links in a folder.

    stages: all that `dvc repro` goes through. Raises `InputError` as `check` does.
    """
    check(dvc, stages)
    linked = {target for stage in stages for path in stage.dependencies for target in _linked(path)}
    found = [stage for stage in stages if stage.is_raw_data]
    found += [stage for stage in dvc.stages() if stage.is_raw_data and _makes(stage, linked)]
    return list({stage.file: stage for stage in found}.values())


def check(dvc: "Dvc", stages: "Collection[Stage]") -> None:
    """Raise `InputError` for a dependency for which DVC would wait forever, and for a `.dvc` file that it overlooks."""
    check_dependencies(stages)
    check_all(dvc, dict.fromkeys(path for stage in stages for path in stage.dependencies))


def _linked(folder: Path) -> Iterator[Path]:
    """Yield the targets of a folder's symlinks, existing or not. DVC sees a link's content, not whose output it is."""
    for place, _, names in os.walk(folder):
        for path in (Path(place, name) for name in names):
            if path.is_symlink():
                yield Path(os.path.normpath(path.parent / path.readlink()))


def _makes(stage: "Stage", paths: Iterable[Path]) -> bool:
    return any(path.is_relative_to(out) for path in paths for out in stage.outputs)
