"""Find the files that a module's code consists of: itself and all it imports from this package, without running it.

`engine.lock` holds a hash of these files for each stage; a checkpoint's fingerprint includes such a hash too.
"""

import ast
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib.util import decode_source
from pathlib import Path

from tapeline.runtime import code, own_modules

PACKAGE = Path(__file__).resolve().parents[1]


Sources = dict[Path, str]
"""File → its text."""


def of_module(name: str, package: Path = PACKAGE) -> Sources:
    """Return the files of `tapeline.…` module `name` and of all it imports, anywhere in the code."""
    start = _file(name, package)
    if start is None:
        raise ValueError(f"{name} is not a module of {package}")
    return _close(start, package, lambda top: [], lambda top, folder: True)


def of_file(path: Path) -> Sources:
    """Return a recipe's file and all that it imports from this package and of the user's own, see `own`.

    Raises `InputError` for a file that is not Python, with the line.
    """
    return _close(path.resolve(), PACKAGE, cache(own_modules.roots), cache(own_modules.is_beside))


def own(path: Path) -> list[Path]:
    """Return the files of the user's own that a recipe imports: from its own folder, and from where Python finds them.

    Nothing is imported for it. Raises as `of_file` does.
    """
    start = path.resolve()
    found = _close(start, None, cache(own_modules.roots), cache(own_modules.is_beside))
    return [file for file in found if file != start]


Roots = Callable[[str], list[Path]]
"""Takes the name of a top-level module; returns the files or folders of one that is the user's own."""
Beside = Callable[[str, Path], bool]
"""Takes the name of a top-level module and a folder; returns whether it may be in that folder."""


def _close(start: Path, package: Path | None, roots: Roots, is_beside: Beside) -> Sources:
    found: Sources = {}
    waiting = [start]
    while waiting:
        path = waiting.pop()
        if path not in found:
            with code.naming(path):
                found[path] = decode_source(path.read_bytes())
                imported = _imported(found[path])
            waiting += _files(imported, path, package, {start.parent}, roots, is_beside)
    return found


@cache
def _imported(source: str) -> tuple[tuple[int, str], ...]:
    """Return what a module imports, anywhere in its code: the number of leading dots and the dotted name.

    Kept for each source, as each stage's code and each recipe's have most files in common.
    """
    found: dict[tuple[int, str], None] = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.update(dict.fromkeys((0, alias.name) for alias in node.names))
        elif isinstance(node, ast.ImportFrom):
            start = f"{node.module}." if node.module else ""
            found.update(dict.fromkeys((node.level, f"{start}{alias.name}") for alias in node.names))
    return tuple(found)


def _files(
    imported: Iterable[tuple[int, str]],
    path: Path,
    package: Path | None,
    folders: set[Path],
    roots: Roots,
    is_beside: Beside,
) -> Iterator[Path]:
    """Yield the files that one file imports. folders: where its absolute imports are also looked up."""
    for level, name in imported:
        top = name.split(".")[0]
        if level:
            for folder in path.parents[level - 1 : level]:  # none above the root, where Python finds nothing either
                yield from _relative(name, folder)
        elif top not in sys.stdlib_module_names:
            is_own = top != PACKAGE.name
            near = [folder for folder in {path.parent, *folders} if is_own and is_beside(top, folder)]
            for parent in _with_parents(name):
                beside = (_file_beside(parent, folder) for folder in near)
                own = _own(parent, roots(top)) if is_own else ()
                yield from (file for file in (_file(parent, package), *beside, *own) if file is not None)


def _relative(name: str, folder: Path) -> Iterator[Path]:
    """Yield the modules that `from .name import other` refers to, and the packages on the way there."""
    found = (folder / "__init__.py", *(_file_beside(parent, folder) for parent in _with_parents(name)))
    yield from (file for file in found if file is not None and file.is_file())


def _with_parents(name: str) -> Iterator[str]:
    parts = name.split(".")
    yield from (".".join(parts[:length]) for length in range(1, len(parts) + 1))


def _own(name: str, places: list[Path]) -> Iterator[Path | None]:
    """Yield a module's file below each place of its package."""
    _, *rest = name.split(".")
    for place in places:
        yield place if place.is_file() and not rest else _existing(place.joinpath(*rest))


def _file(name: str, package: Path | None) -> Path | None:
    top, *rest = name.split(".")
    return _existing(package.joinpath(*rest)) if package and top == package.name else None


def _file_beside(name: str, folder: Path) -> Path | None:
    return _existing(folder.joinpath(*name.split(".")))


def _existing(module: Path) -> Path | None:
    for candidate in (module.with_suffix(".py"), module / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None
