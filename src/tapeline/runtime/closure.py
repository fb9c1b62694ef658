"""Find the files that a module's code consists of: itself and all it imports from this package, without running it.

`engine.lock` holds a hash of these files for each stage; a checkpoint's fingerprint includes such a hash too.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]


Trees = dict[Path, ast.Module]
"""File → its syntax tree."""


def of_module(name: str, package: Path = PACKAGE) -> Trees:
    """Return the files of `tapeline.…` module `name` and of all it imports, anywhere in the code."""
    start = _file(name, package)
    if start is None:
        raise ValueError(f"{name} is not a module of {package}")
    return _close(start, package)


def of_file(path: Path, package: Path = PACKAGE) -> Trees:
    """Return a recipe's file and all that it imports from this package or from its own folder."""
    return _close(path.resolve(), package)


def _close(start: Path, package: Path) -> Trees:
    found: Trees = {}
    waiting = [start]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found[path] = ast.parse(path.read_text(encoding="utf-8"))
            waiting += _imports(found[path], path, package, {start.parent})
    return found


def _imports(tree: ast.Module, path: Path, package: Path, folders: set[Path]) -> Iterator[Path]:
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
            for parent in _with_parents(name):
                for file in (_file(parent, package), *(_file_beside(parent, f) for f in {path.parent, *folders})):
                    if file is not None:
                        yield file


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


def _file(name: str, package: Path) -> Path | None:
    top, *rest = name.split(".")
    return _existing(package.joinpath(*rest)) if top == package.name else None


def _file_beside(name: str, folder: Path) -> Path | None:
    return _existing(folder.joinpath(*name.split(".")))


def _existing(module: Path) -> Path | None:
    for candidate in (module.with_suffix(".py"), module / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None
