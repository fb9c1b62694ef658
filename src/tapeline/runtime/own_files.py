"""Files that a recipe reads: those of its repository must be ones that DVC compares.

with files_read.watched() as read:
    recipe.build()
own_files.check(path, read, needs, known=folders)
"""

import os
import sys
import tempfile
from collections.abc import Collection
from contextlib import suppress
from importlib.util import source_from_cache
from pathlib import Path

from tapeline.runtime import own_modules, streams
from tapeline.runtime.closure import PACKAGE
from tapeline.runtime.errors import InputError

NOTED = 3
"""How many files outside the repository are named."""
SETTINGS = ("params.yaml", "dvc.yaml", "dvc.lock")
"""What a recipe reads of these, it gets in `self.params`."""
_HIDDEN = {".git", ".dvc", ".cache", ".config", ".local"}
"""Folders of Git, DVC, and of programs' settings and caches."""
_OF_USER = (".config", ".local", *(f".cache/{name}" for name in ("tapeline", "matplotlib", "fontconfig", "pip", "uv")))
"""Of the other folders of `.cache` some hold pretrained weights."""
_ABOUT = (".egg-info", ".dist-info")
_IGNORED = {".gitignore", ".gitattributes", ".dvcignore"}
_VARIABLES = ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "MPLCONFIGDIR")
_SYSTEM = ("/bin", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sys", "/usr", "/var/lib")


def check(recipe: Path, read: Collection[Path], needs: Path | None, *, known: Collection[Path]) -> None:
    """Raise `InputError` for files of the repository that a recipe read whose changes DVC would not see; note others.

    read: absolute paths, also of what the engine read. known: files and folders that DVC compares, or that are not the
    recipe's. Left out are libraries, and what belongs to Git, DVC, the system, or programs' settings and caches.
    """
    tree = _tree(recipe.resolve().parent)
    apart = [PACKAGE, *map(_place, known), *(path.resolve() for path in known)]
    found = [path for path in sorted(map(_source, read)) if _is_file(path) and not _is_in(_place(path), apart)]
    compared = list(own_modules.files_of(needs)) if needs and found else []
    places, led = {_place(path) for path in compared}, set(filter(None, map(_target, compared)))
    others = [path for path in found if not own_modules.is_library(_place(path))]
    others = [path for path in others if _place(path) not in places | led and _target(path) not in places]
    inside = [path for path in others if _place(path).is_relative_to(tree)]
    outside = [path for path in others if path not in inside and not _is_in(_place(path), _system())]
    for path in outside[:NOTED]:
        own_modules.note_outside(f"{recipe.name} reads {path}")
    if more := outside[NOTED:]:
        own_modules.note_outside(f"{recipe.name} reads {len(more):,} more, such as {more[-1]}")
    around = [folder for folder in _programs() if not tree.is_relative_to(folder)]
    unseen = [path for path in inside if not _is_in(_place(path), around) and not _is_hidden(path, tree)]
    secret = [path for path in unseen if path.name.startswith(".env")]
    for path in secret:
        said = f"note: {recipe.name} reads {os.path.relpath(path)}: DVC will not see it change"
        streams.say(said, sys.stderr)
    if unseen := [path for path in unseen if path not in secret]:
        name = os.path.relpath(unseen[0])
        raise InputError(f"{recipe.name} reads {name}, whose changes DVC would not see: {_remedy(unseen, needs)}")


def note_outputs(recipe: Path, needs: Path) -> None:
    """Print that DVC knows of no order, if what a recipe needs has links to what stages write."""
    here = Path.cwd().resolve()
    written = [here / name for name in ("data", "models", "runs")]
    raw = here / "data" / "raw"
    for path in needs.rglob("*") if needs.is_dir() else ():
        place = _target(path)
        if place and _is_in(place, written) and not place.is_relative_to(raw):
            said = (
                f"note: {recipe.name} needs {os.path.relpath(path)}, a link to {os.path.relpath(place)}, which a stage"
            )
            streams.say(f"{said} writes: DVC does not run that stage first", sys.stderr)


def _tree(folder: Path) -> Path:
    """Return the Git working tree that a recipe's folder is in; the project, without Git."""
    here = Path.cwd().resolve()
    return own_modules.tree_of(folder) or (here if folder.is_relative_to(here) else folder)


def _remedy(unseen: Collection[Path], needs: Path | None) -> str:
    names = list(dict.fromkeys(map(_output, map(os.path.relpath, unseen))))
    if names[0] in SETTINGS:
        return "take what it needs from self.params"
    if needs and needs.is_dir():
        return f"move it into {os.path.relpath(needs)}, which the pipeline `needs`, or link to it there"
    folder = os.path.commonpath([Path(name).parent for name in names]) if len(names) > 1 else names[0]
    if needs or Path.cwd().is_relative_to(Path(folder).resolve()):  # it holds the stages' outputs, too
        return "set `needs` to a folder that holds all that the recipe needs, or links to the files"
    return f"set `needs: {folder}` for the pipeline"


def _output(name: str) -> str:
    """Return the output of a stage that a file belongs to, which may be a folder; the file itself if it is in none."""
    parts = Path(name).parts
    depth = {"data": 2, "models": 2, "runs": 4}.get(parts[0], len(parts))
    return name if parts[:2] == ("data", "raw") else str(Path(*parts[:depth]))


def _source(path: Path) -> Path:
    """Return the source of a module's byte code; other paths as they are."""
    with suppress(ValueError):  # byte code by another name
        return Path(source_from_cache(path)) if path.parent.name == "__pycache__" else path
    return path


def _is_file(path: Path) -> bool:
    """Return whether a path that was opened, in vain perhaps, is one of a file."""
    try:
        return path.is_file()
    except OSError:  # of a name that is too long
        return False


def _place(path: Path) -> Path:
    """Return where a file or folder is: links on the way are followed, but not it itself, which may lead to a cache."""
    return path.parent.resolve() / path.name


def _target(path: Path) -> Path | None:
    """Return where a link leads, one step: several files of one content may lead to one file of a cache."""
    return _place(path.parent / path.readlink()) if path.is_symlink() else None


def _is_in(path: Path, folders: Collection[Path]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


def _is_hidden(path: Path, tree: Path) -> bool:
    """Return whether a file is none that a person has written, by its place in the repository."""
    parts = _place(path).relative_to(tree).parts
    return bool(_HIDDEN & {*parts}) or path.name in _IGNORED or any(part.endswith(_ABOUT) for part in parts)


def _programs() -> list[Path]:
    """Return the folders of Python's environment and of programs' settings and caches, wherever they are."""
    named = [os.environ[name] for name in _VARIABLES if os.environ.get(name)]
    return [Path(folder).resolve() for folder in (sys.prefix, *named)]


def _system() -> list[Path]:
    """Return the folders of the system, of temporary files, and of programs' settings and caches."""
    of_user = [str(Path.home() / name) for name in _OF_USER]
    outside = [Path(folder).resolve() for folder in (sys.base_prefix, tempfile.gettempdir(), *of_user, *_SYSTEM)]
    return [*outside, *_programs()]
