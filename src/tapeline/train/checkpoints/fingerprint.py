"""Hash everything that determines a run bit for bit: only a run with the same fingerprint may use a checkpoint."""

import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from tapeline.config import engine_lock
from tapeline.runtime import closure, environment, files
from tapeline.runtime.code import digest_of_file


def parts(
    *, settings: Mapping[str, Any], params: Mapping[str, Any], data: str, recipe: Path, bits: str
) -> dict[str, Any]:
    """Return everything that the fingerprint covers, by name, JSON-compatible. bits: as promised."""
    return {
        "settings": settings,
        "params": params,
        "data": data,
        "code": code(recipe),
        "libraries": environment.library_versions(),
        "machine": environment.deciding(bits),
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


def code(recipe: Path) -> dict[str, str]:
    """Return a hash of the engine's code, as `engine.lock` has it, and of each module that the recipe runs, by path."""
    found = {"engine": engine_lock.current("train")}
    for path in closure.of_file(recipe):
        inside = path.is_relative_to(closure.PACKAGE)
        beside = os.path.relpath(path, recipe.resolve().parent)
        found[str(path.relative_to(closure.PACKAGE)) if inside else beside] = digest_of_file(path)
    return found
