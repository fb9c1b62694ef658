"""What decides the bits of a run, hashed: a checkpoint is only used by a run of the same fingerprint."""

import sys
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from tapeline import environment, files

PACKAGE = Path(__file__).resolve().parents[1]
OUTSIDE = {"cli.py", "params.py", "__main__.py"}
"""Loaded with a stage and without influence on its bits."""


def parts(*, settings: Mapping[str, Any], params: Mapping[str, Any], data: str, recipe: Path) -> dict[str, Any]:
    """Return everything that the fingerprint covers, by name, JSON-compatible."""
    return {
        "settings": settings,
        "params": params,
        "data": data,
        "code": _code(recipe),
        "libraries": environment.library_versions(),
        "machine": environment.machine(),
    }


def fingerprint(covered: Mapping[str, Any]) -> str:
    """Return 16 hexadecimal digits."""
    return sha256(files.canonical_json(covered).encode()).hexdigest()[:16]


def difference(old: Mapping[str, Any], new: Mapping[str, Any], path: str = "") -> list[str]:
    """Return what changed, as dotted names."""
    changed: list[str] = []
    for key in sorted(old.keys() | new.keys()):
        name, before, after = f"{path}{key}", old.get(key), new.get(key)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            changed += difference(before, after, f"{name}.")
        elif before != after:
            changed.append(name)
    return changed


def _code(recipe: Path) -> dict[str, str]:
    """Return the hash of the recipe and of every loaded module of this package or beside the recipe."""
    loaded = {Path(file) for module in list(sys.modules.values()) if (file := getattr(module, "__file__", None))}
    own = {path for path in loaded if path.is_relative_to(PACKAGE) and path.name not in OUTSIDE}
    beside = {path for path in loaded if path.is_relative_to(recipe.parent)}
    return {path.name if path in beside else str(path.relative_to(PACKAGE)): files.sha256(path) for path in own | beside | {recipe}}
