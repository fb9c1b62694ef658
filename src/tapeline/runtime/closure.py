"""Find the files that a module's code consists of: itself and all it imports from this package, without running it.

`engine.lock` holds a hash of these files for each stage; a checkpoint's fingerprint includes such a hash too.
"""

import ast
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from tapeline.runtime import own_modules

PACKAGE = Path(__file__).resolve().parents[1]


Trees = dict[Path, ast.Module]
"""File → its syntax tree."""


def of_module(name: str, package: Path = PACKAGE) -> Trees:
    """Return the files of `tapeline.…` module `name` and of all it imports, anywhere in the code."""
    start = _file(name, package)
    if start is None:
        raise ValueError(f"{name} is not a module of {package}")
    return _close(start, package, lambda top: [])


def of_file(path: Path, package: Path = PACKAGE) -> Trees:
    """Return a recipe's file and all that it imports from this package and of the user's own, see `own`."""
    return _close(path.resolve(), package, cache(own_modules.roots))


def own(path: Path) -> list[Path]:
    """Return the files of the user's own that a recipe imports: from its own folder, and from where Python finds them.

    Nothing is imported for it.
    """
    start = path.resolve()
    return [file for file in _close(start, None, cache(own_modules.roots)) if file != start]


Roots = Callable[[str], list[Path]]
"""Takes the name of a top-level module; returns the files or folders of one that is the user's own."""


def _close(start: Path, package: Path | None, roots: Roots) -> Trees:
    found: Trees = {}
    waiting = [start]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found[path] = ast.parse(path.read_text(encoding="utf-8"))
            waiting += _imports(found[path], path, package, {start.parent}, roots)
    return found


def _imports(tree: ast.Module, path: Path, package: Path | None, folders: set[Path], roots: Roots) -> Iterator[Path]:
    """Yield the files that one file imports. folders: where its absolute imports are also looked up."""
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.ImportFrom) and node.level:
            yield from _relative(node, path)
        for name in names:
            top = name.split(".")[0]
            if top in sys.stdlib_module_names:
                continue
            for parent in _with_parents(name):
                beside = (_file_beside(parent, folder) for folder in {path.parent, *folders})
                own = _own(parent, roots(top)) if top != PACKAGE.name else ()
                yield from (file for file in (_file(parent, package), *beside, *own) if file is not None)


def _relative(node: ast.ImportFrom, path: Path) -> Iterator[Path]:
    """Yield the modules that `from .name import other` refers to, and the packages on the way there."""
    folder = path.parents[node.level - 1]
    start = f"{node.module}." if node.module else ""
    for alias in node.names:
        names = (".", *_with_parents(f"{start}{alias.name}"))
        found = (folder / "__init__.py" if name == "." else _file_beside(name, folder) for name in names)
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
