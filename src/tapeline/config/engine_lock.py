"""`engine.lock`: what a project's results were made with: a hash of the code for each stage, and the libraries.

    engine_lock.write(folder)            # what `tapeline lock` does; returns the stages that become stale
    engine_lock.check(folder, "train")   # what a stage does first

A hash covers the modules of this package that a stage imports, by `runtime.code`: comments, formatting and the names of
local variables do not count. The libraries are those whose version decides bits (`runtime.environment`). In `dvc.yaml`
each stage depends on its own hash and on the libraries, so the file records what the entries of `dvc.lock` were made
with, and a stage with other code or libraries refuses to run.
"""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from tapeline.parsing import yaml_text
from tapeline.runtime import closure, code, files, user_cache
from tapeline.runtime.environment import library_versions
from tapeline.runtime.errors import InputError

LOCK = "engine.lock"
STAGES = ("ingest", "train", "validate", "export")
LIBRARIES = "libraries"

_HEAD = """\
# What results are made with: a hash of the code for each stage, and the libraries that decide bits. `tapeline lock`
# writes this file.
"""
_REMEDY = "`tapeline upgrade` shows which results stay the same, `tapeline lock` accepts"


@dataclass(frozen=True)
class Engine:
    """What results are made with."""

    stages: Mapping[str, str]
    """Stage → hash of its code, 16 hexadecimal digits."""
    libraries: Mapping[str, str]
    """Package → version."""

    def text(self) -> str:
        """Return the file's content."""
        lines = [f'{stage}: "{self.stages[stage]}"\n' for stage in STAGES]
        lines += [f"{LIBRARIES}:\n", *(f"  {name}: {json.dumps(self.libraries[name])}\n" for name in self.libraries)]
        return _HEAD + "".join(lines)


@cache
def current(stage: str) -> str:
    """Return the hash of the code that this process would run for a stage, 16 hexadecimal digits.

    Computed once for each content of the package: it takes some tenths of a second, and every run and stage asks.
    """
    if (content := _content(closure.PACKAGE)) is None:
        return _computed(stage)
    python = ".".join(map(str, sys.version_info[:2]))
    return user_cache.remembered("code", f"{stage}-{python}-{content}", lambda: _computed(stage))


@cache
def _content(package: Path) -> str | None:
    """Return a hash of all source files of the package, on which `_computed` depends alone.

    None if a link leads to another folder, whose files are not looked at.
    """
    found: dict[str, str] = {}
    for folder, inner, names in os.walk(package):
        inner[:] = [name for name in inner if name != "__pycache__"]
        if any(Path(folder, name).is_symlink() for name in inner):
            return None
        for path in (Path(folder, name) for name in names if name.endswith(".py")):
            found[path.relative_to(package).as_posix()] = sha256(path.read_bytes()).hexdigest()
    return sha256("\n".join(f"{found[name]} {name}" for name in sorted(found)).encode()).hexdigest()


def _computed(stage: str) -> str:
    return code.digest_of_modules(closure.of_module(f"tapeline.{stage}.stage"), closure.PACKAGE)[:16]


def installed() -> Engine:
    """Return what a stage would run with here."""
    return Engine({stage: current(stage) for stage in STAGES}, library_versions())


def recorded(folder: Path) -> Engine | None:
    """Return the file's content; None without the file. Raises `InputError` if it is malformed, or of an older form."""
    path = folder / LOCK
    if not path.exists():
        return None
    try:
        content = yaml_text.parsed(files.read_bytes(path))
    except yaml_text.NotYaml as error:
        raise InputError(f"{LOCK}{error.where}: not YAML: {error}; run `tapeline lock`") from None
    return _engine(content)


def _engine(content: Any) -> Engine:
    if not isinstance(content, dict) or content.keys() - {LIBRARIES} != set(STAGES):
        raise InputError(f"{LOCK} must have a hash for each of {', '.join(STAGES)}: run `tapeline lock`")
    if LIBRARIES not in content:
        raise InputError(f"{LOCK} has no {LIBRARIES}, so an older Tapeline wrote it: `tapeline upgrade` migrates it")
    libraries = content[LIBRARIES]
    if not isinstance(libraries, dict) or libraries.keys() != library_versions().keys():
        raise InputError(f"{LOCK} must have {', '.join(library_versions())} under {LIBRARIES}: run `tapeline lock`")
    return Engine({s: str(content[s]) for s in STAGES}, {name: str(libraries[name]) for name in library_versions()})


def differences(folder: Path) -> list[str]:
    """Return what differs from the file, each in a few words: `the code of train differs`. Raises `InputError`."""
    said, here = recorded(folder), installed()
    if said is None:
        return [f"there is no {LOCK}"]
    found = [f"the code of {stage} differs" for stage in STAGES if said.stages[stage] != here.stages[stage]]
    return found + [
        f"{name} {version} is installed, not {said.libraries[name]}"
        for name, version in here.libraries.items()
        if said.libraries[name] != version
    ]


def changed(folder: Path) -> list[str]:
    """Return the stages whose code or libraries are not the recorded ones: all, if a library differs."""
    said, here = recorded(folder), installed()
    if said is None or said.libraries != here.libraries:
        return list(STAGES)
    return [stage for stage in STAGES if said.stages[stage] != here.stages[stage]]


def write(folder: Path) -> list[str]:
    """Write what is installed and return the stages that become stale by it; if none does, leave the file alone."""
    try:
        differing = changed(folder)
    except InputError:  # malformed or damaged: rewrite all of it
        differing = list(STAGES)
    if differing:
        files.write_text(folder / LOCK, installed().text())
    return differing


def check(folder: Path, *stages: str) -> None:
    """Raise `InputError` if a library, or the code of one of these stages, is not the recorded one.

    A folder without the file passes; DVC itself refuses to run if `dvc.yaml` names a file that is missing.
    """
    said = recorded(folder)
    if said is None:
        return
    for name, version in library_versions().items():
        if said.libraries[name] != version:
            raise InputError(
                f"{LOCK} has {name} {said.libraries[name]}, but {version} is installed: install "
                f"{name}=={said.libraries[name]}; or {_REMEDY} {version}, which makes every stage stale"
            )
    for stage in stages:
        if said.stages[stage] != current(stage):
            raise InputError(
                f"{LOCK} says that {stage} is the code {said.stages[stage]}, and here it is {current(stage)}: "
                f"{_REMEDY} this code, which makes {stage}'s stages stale; or use the tapeline that made the file"
            )
