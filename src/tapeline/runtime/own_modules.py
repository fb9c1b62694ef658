"""Modules of the user's own that a recipe imports: where they are, and that they are those of the recipe's checkout.

A recipe's folder comes last in Python's path. Of an editable install, or of `PYTHONPATH`, the folders may belong to
another working tree of the same repository: that of which an isolated run is a worktree, or a rebuild a clone. Then
those of the recipe's own tree take their place. Standard library only.
"""

import importlib.util
import os
import re
import site
import sys
import sysconfig
from collections.abc import Iterator
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path

from tapeline.runtime import streams
from tapeline.runtime.errors import InputError

_ORIGIN = re.compile(r"^\s*url = (/.*)$", re.MULTILINE)


def use(recipe: Path) -> None:
    """Let Python find the modules beside a recipe, and those of its own working tree."""
    folder = recipe.resolve().parent
    tree = tree_of(folder)
    others = list(_others(tree)) if tree else []
    for place, entry in enumerate(sys.path):
        path = Path(entry).resolve()
        for other in others:
            here = tree / path.relative_to(other) if tree and path.is_relative_to(other) else None
            if here and not is_library(path) and here.is_dir():
                sys.path[place] = str(here)
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def check(recipe: Path, files: list[Path], needs: Path | None) -> None:
    """Raise `InputError` for modules whose changes DVC would not see; print a note for those of no repository.

    files: those of the user's own that the recipe imports. needs: the pipeline's file or folder, which DVC compares.
    """
    tree = tree_of(recipe.resolve().parent)
    known = {file.resolve() for file in files_of(needs)} if needs else set()
    inside = [file for file in files if tree is None or file.is_relative_to(tree)]
    for file in files:
        if file not in inside and file not in known:
            note_outside(f"{recipe.name} imports {file}")
    unknown = [file for file in inside if file not in known]
    if unknown:
        folder = Path(os.path.commonpath([file.parent for file in inside]))
        if Path.cwd().resolve().is_relative_to(folder):  # it holds the stages' outputs, too
            way = "set `needs` to a folder that holds everything that it imports, or links to the files"
        else:
            name = os.path.relpath(folder)
            way = f"set `needs: {name}` for the pipeline, or a folder that holds everything that it needs"
        raise InputError(f"{recipe.name} imports {os.path.relpath(unknown[0])}, whose changes DVC would not see: {way}")


def note_outside(what: str) -> None:
    """Print that DVC will not see a change of what is outside the repository. what: who reads what."""
    streams.say(f"note: {what}, which is outside this repository: DVC will not see it change", sys.stderr)


def roots(name: str) -> list[Path]:
    """Return the files or folders of a top-level module, unless it is part of Python or an installed library."""
    if name in sys.builtin_module_names or name in sys.stdlib_module_names:
        return []
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return []
    if spec is None:
        return []
    found = spec.submodule_search_locations
    places = [Path(place) for place in found or ([spec.origin] if spec.has_location and spec.origin else [])]
    return [place.resolve() for place in places if not is_library(place.resolve())]


def is_beside(name: str, folder: Path) -> bool:
    """Return whether Python finds a top-level module, or a part of it, in a folder that is last in its path.

    What it finds before hides a file of that name, as an installed library does. The same before `use` and after it.
    """
    entries = sys.path if str(folder) in sys.path else [*sys.path, str(folder)]
    spec = PathFinder.find_spec(name, entries)
    if spec is None:
        return False
    places = spec.submodule_search_locations or ([spec.origin] if spec.origin else [])
    return any(Path(place).resolve().parent == folder for place in places)


def is_library(path: Path) -> bool:
    """Return whether a file or folder is part of Python or an installed package."""
    installed = {"site-packages", "dist-packages"} & set(path.parts)
    return bool(installed) or any(path.is_relative_to(folder) for folder in _libraries())


@cache
def _libraries() -> tuple[Path, ...]:
    named = (sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    folders = [*named, *site.getsitepackages(), site.getusersitepackages()]
    return tuple(Path(folder).resolve() for folder in folders)


def files_of(needs: Path) -> Iterator[Path]:
    """Yield the files that DVC compares of what a pipeline needs; it follows no link to a folder."""
    for place, _, names in os.walk(needs) if needs.is_dir() else [(str(needs.parent), [], [needs.name])]:
        yield from (Path(place, name) for name in names)


def tree_of(folder: Path) -> Path | None:
    """Return the Git working tree that a folder is in."""
    return next((place for place in (folder, *folder.parents) if (place / ".git").exists()), None)


def _others(tree: Path) -> Iterator[Path]:
    """Yield the main checkout of a worktree, and the folder on this machine of which a repository is a clone."""
    git = tree / ".git"
    if git.is_file():
        own = (tree / git.read_text(encoding="utf-8").removeprefix("gitdir:").strip()).resolve()
        if own.parent.name != "worktrees":  # of a submodule
            return
        git = own.parents[1]
        if git.name == ".git":  # not of a bare repository, beside which the worktrees are
            yield git.parent
    config = git / "config"
    if config.is_file():
        yield from (
            Path(url).resolve() for url in _ORIGIN.findall(config.read_text(encoding="utf-8", errors="replace"))
        )
