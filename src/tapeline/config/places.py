"""Datasets whose output would replace raw data: `ingest` replaces `data/NAME` as a whole."""

import os
from collections.abc import Mapping
from pathlib import Path


def overlap(name: str, needs: str, project: Path, out: Path, *, reads: bool = True) -> str:
    """Return in one line why a dataset cannot be written to `out`, empty if it can: what it `needs` would be lost.

    `needs` is relative to `project`. Links are followed: it is the places themselves that count.
    reads: whether ingest reads what the dataset needs; then its output may not be in there.
    """
    source, target = _place(project / needs), _place(out)
    shown = out.relative_to(project) if out.is_relative_to(project) else out
    if source.is_relative_to(target):
        where = "its own output" if source == target else f"a part of {shown}, its own output"
        return (
            f"dataset {name!r} needs {needs}, {where}, which ingest would replace: move it to another place, such as "
            f"one in data/raw, and set `needs` to that, or rename the dataset"
        )
    if reads and target.is_relative_to(source):
        return (
            f"dataset {name!r} needs {needs}, but its own output, {shown}, is in there, and ingest would read it: set "
            f"`needs` to a folder with nothing but the raw data"
        )
    return ""


def overlaps(folder: Path, needs: Mapping[str, str]) -> dict[str, str]:
    """Return the first such reason for each dataset of a project that has one, given what each dataset `needs`.

    A dataset may need the whole output of another, but no part of it: what is there and ingest did not write is lost.
    """
    found: dict[str, str] = {}
    sources = {name: _place(folder / path) for name, path in needs.items()}
    for name, path in needs.items():
        out = folder / "data" / name
        reason, target = overlap(name, path, folder, out), _place(out)
        lost = [other for other, place in sources.items() if other != name and target in place.parents]
        if lost and not reason:
            reason = (
                f"dataset {name!r} is written to data/{name}, which ingest would replace, but dataset {lost[0]!r} "
                f"needs {needs[lost[0]]}: rename dataset {name!r}, or move what is in data/{name} to another place"
            )
        if reason:
            found[name] = reason
    return found


def _place(path: Path) -> Path:
    return Path(os.path.realpath(path))  # unlike `Path.resolve`, of links in a circle too
