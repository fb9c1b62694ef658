"""Raw data: what stages depend on and `dvc add` or `dvc import` has put into DVC, wherever in the repository it is.

with closing(Dvc(folder)) as dvc, dvc.locked():
    raw_data.needed(dvc, dvc.upstream(dvc.stage(folder / "dvc.yaml", "export@digits")))
"""

import os
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tapeline.repository import objects
from tapeline.repository.dvc_errors import check_dependencies
from tapeline.repository.git import Git
from tapeline.repository.unseen import check_all
from tapeline.runtime.errors import InputError

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


def check_not_older(stages: "Iterable[Stage]") -> None:
    """Raise `InputError` for raw data of an earlier commit, as after a `git pull`: DVC would record them again.

    stages: `.dvc` files that are stale. One that is not committed as it is counts as a person's decision.
    """
    for stage in stages:
        git, name = Git(stage.file.parent), stage.file.name
        if git.ask("status", "--porcelain", "--", name) != "":
            continue
        for out in stage.recorded_outputs():
            current = out.current()
            if current in ("", out.md5):
                continue
            if commit := git.ask("log", "-n", "1", "--format=%h", "-S", current, "--", name):
                there = os.path.relpath(out.path)
                raise InputError(
                    f"{there} is what commits before {commit} have, and HEAD has other data: `dvc pull "
                    f"{os.path.relpath(stage.file)}` brings those, `dvc add {there}` goes back to these"
                )


def check_cached(stages: "Iterable[Stage]", *, fetched: bool = False) -> None:
    """Check what the cache has of the stages' outputs before DVC copies it into a checkout.

    DVC believes the list of a folder's files, whatever its bytes, and writes where a path in it leads. fetched: the
    files' bytes too, which DVC does not compare after a download. Raises `InputError`.
    """
    for out in (out for stage in stages for out in stage.recorded_outputs()):
        parts = [out.md5]
        if out.md5.endswith(".dir") and (listed := out.cached(out.md5)).is_file():
            objects.check(listed, out.md5)
            try:
                parts += objects.listing(listed.read_bytes(), out.md5).values()
            except ValueError:
                raise InputError(f"{listed} is not a listing of a folder: delete it and fetch it again") from None
        for part in parts if fetched and out.is_of_bytes else ():
            if (path := out.cached(part)).is_file():
                objects.check(path, part)


def _linked(folder: Path) -> Iterator[Path]:
    """Yield the targets of a folder's symlinks, existing or not. DVC sees a link's content, not whose output it is."""
    for place, _, names in os.walk(folder):
        for path in (Path(place, name) for name in names):
            if path.is_symlink():
                yield Path(os.path.normpath(path.parent / path.readlink()))


def _makes(stage: "Stage", paths: Iterable[Path]) -> bool:
    return any(path.is_relative_to(out) for path in paths for out in stage.outputs)
