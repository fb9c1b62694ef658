"""Choose the name of a first dataset and its pipeline, such that no stage replaces existing files.

name, said = free_name(folder, "photos")    # "photos-data" if there is a `data/photos`
"""

from collections.abc import Iterable
from itertools import chain, count
from pathlib import Path

from tapeline.config.project import WRITTEN
from tapeline.runtime.errors import InputError
from tapeline.scaffold.proposal import name_of

RAW = "raw"
"""`data/raw` holds what users bring, and is the output of no stage."""
OUTPUTS = ("data", "runs", "models", "serving")
"""Folders in which stages and commands replace the one with the name of a dataset or pipeline."""


def free_name(folder: Path, text: str) -> tuple[str, tuple[str, ...]]:
    """Return a name from a file or folder name for a project in `folder`, and a note if it is not the obvious one."""
    wanted, taken = name_of(text), _taken(folder)
    names = chain((wanted, f"{wanted}-data"), (f"{wanted}-data-{number}" for number in count(2)))
    name = next(name for name in names if name not in taken)
    if name == wanted:
        return name, ()
    return name, (f"the dataset is called {name!r}: a stage would replace {taken[wanted]}",)


def check_apart(folder: Path, data: Path, written: Iterable[Path]) -> None:
    """Raise `InputError` if something that the project in `folder` writes would be inside of `data`."""
    for path in (*(folder / name for name in WRITTEN), *written):
        if path.resolve().is_relative_to(data):
            inside = path.relative_to(folder).as_posix()
            raise InputError(f"{data} would contain {inside}, which Tapeline writes: move the data to data/raw/NAME")


def _taken(folder: Path) -> dict[str, str]:
    """Return what is in the folders of outputs, by the name in lower case: on some systems, case does not count."""
    places = [folder / name for name in OUTPUTS]
    there = {path.name.lower(): path for place in places if place.is_dir() for path in sorted(place.iterdir())}
    return {RAW: f"data/{RAW}"} | {name: path.relative_to(folder).as_posix() for name, path in there.items()}
