"""Which files a module's code consists of: itself and all it imports from this package, found without running it.

`dvc.yaml` lists exactly these as a stage's dependencies, and a checkpoint's fingerprint hashes them.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent


def of_module(name: str, package: Path = PACKAGE) -> set[Path]:
    """Return the files of `tapeline.…` module `name` and of all that it imports, wherever in the code."""
    start = _file(name, package)
    if start is None:
        raise ValueError(f"{name} is no module of {package}")
    return _close({start}, package)


def of_file(path: Path, package: Path = PACKAGE) -> set[Path]:
    """Return a recipe's file and all that it imports from this package or from its own folder."""
    return _close({path.resolve()}, package)


def _close(found: set[Path], package: Path) -> set[Path]:
    waiting = list(found)
    while waiting:
        for imported in _imports(waiting.pop(), package):
            if imported not in found:
                found.add(imported)
                waiting.append(imported)
    return found


def _imports(path: Path, package: Path) -> Iterator[Path]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            for parent in _with_parents(name):
                file = _file(parent, package) or _file_beside(parent, path.parent)
                if file is not None:
                    yield file


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
