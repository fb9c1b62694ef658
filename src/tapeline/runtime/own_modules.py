"""What is the user's own: modules that a recipe imports, from its own checkout, and files that it reads.

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
import tempfile
from collections.abc import Collection, Iterator
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path

from tapeline.runtime.errors import InputError

_MODULES = (".py", ".pyc", ".so")
_SYSTEM = ("/bin", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sys", "/usr", "/var/lib")
_ORIGIN = re.compile(r"^\s*url = (/.*)$", re.MULTILINE)


def use(recipe: Path) -> None:
    """Let Python find the modules beside a recipe, and those of its own working tree."""
    folder = recipe.resolve().parent
    tree = _tree(folder)
    others = list(_other_trees(tree)) if tree else []
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
    tree = _tree(recipe.resolve().parent)
    known = set(_files(needs)) if needs else set()
    inside = [file for file in files if tree is None or file.is_relative_to(tree)]
    for file in files:
        if file not in inside and file not in known:
            _note_outside(f"{recipe.name} imports {file}")
    unknown = [file for file in inside if file not in known]
    if unknown:
        folder = Path(os.path.commonpath([file.parent for file in inside]))
        if Path.cwd().resolve().is_relative_to(folder):  # it holds the stages' outputs, too
            way = "set `needs` to a folder that holds everything that it imports, or links to it"
        else:
            name = os.path.relpath(folder)
            way = f"set `needs: {name}` for the pipeline, or a folder that holds everything that it needs"
        raise InputError(f"{recipe.name} imports {os.path.relpath(unknown[0])}, whose changes DVC would not see: {way}")


def check_read(recipe: Path, read: Collection[Path], needs: Path | None, *, known: Collection[Path]) -> None:
    """Raise `InputError` for files of the repository that a recipe read whose changes DVC would not see; note others.

    read: absolute paths, also of what the engine read. known: files and folders that DVC compares, or that are not the
    recipe's. Modules, libraries, and what belongs to Git or the system are left out.
    """
    tree = _tree(recipe.resolve().parent) or Path.cwd().resolve()
    apart = [tree / ".git", *map(_place, known), *(path.resolve() for path in known)]
    found = [path for path in sorted(read) if path.suffix not in _MODULES and path.is_file()]
    others = [path for path in found if not _is_in(_place(path), apart) and not is_library(_place(path))]
    compared = set(_files(needs)) if needs and others else set()
    for path in others:
        place = _place(path)
        if path.resolve() in compared or _is_in(place, [Path(sys.prefix).resolve()]):
            continue
        if place.is_relative_to(tree):
            name = os.path.relpath(path)
            if needs is None or _place(needs) in apart:
                way = f"set `needs: {name}` for the pipeline"
            elif needs.is_dir():
                way = f"move it into {needs}, which the pipeline `needs`, or link to it there"
            else:
                way = f"set `needs` to a folder that holds it and {needs}, or links to them"
            raise InputError(f"{recipe.name} reads {name}, whose changes DVC would not see: {way}")
        if not _is_in(place, _system()):
            _note_outside(f"{recipe.name} reads {path}")


def _note_outside(what: str) -> None:
    print(f"note: {what}, which is outside this repository: DVC will not see it change", file=sys.stderr, flush=True)


def _place(path: Path) -> Path:
    """Return where a file or folder is: links on the way are followed, but not it itself, which may lead to a cache."""
    return path.parent.resolve() / path.name


def _is_in(path: Path, folders: Collection[Path]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


def _system() -> list[Path]:
    """Return the folders of the system, of temporary files, and of programs' settings and caches."""
    hidden = [str(Path.home() / name) for name in (".cache", ".config", ".local")]
    return [Path(folder).resolve() for folder in (sys.base_prefix, tempfile.gettempdir(), *hidden, *_SYSTEM)]


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


def _files(needs: Path) -> Iterator[Path]:
    """Yield the files of what a pipeline needs, links to files elsewhere as what they lead to."""
    for path in needs.rglob("*") if needs.is_dir() else [needs]:
        if path.is_dir():
            yield from (file.resolve() for file in path.rglob("*") if file.is_file()) if path.is_symlink() else ()
        else:
            yield path.resolve()


def _tree(folder: Path) -> Path | None:
    """Return the Git working tree that a folder is in."""
    return next((place for place in (folder, *folder.parents) if (place / ".git").exists()), None)


def _other_trees(tree: Path) -> Iterator[Path]:
    """Yield the main checkout of a worktree, and the folder on this machine of which a repository is a clone."""
    git = tree / ".git"
    if git.is_file():
        own = (tree / git.read_text(encoding="utf-8").removeprefix("gitdir:").strip()).resolve()
        if own.parent.name != "worktrees":  # of a submodule
            return
        git = own.parents[1]
        yield git.parent
    config = git / "config"
    if config.is_file():
        yield from (
            Path(url).resolve() for url in _ORIGIN.findall(config.read_text(encoding="utf-8", errors="replace"))
        )
