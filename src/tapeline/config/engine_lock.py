"""`engine.lock`: the code that a project's results were made with, as one hash for each stage.

    engine_lock.write(folder)            # what `tapeline lock` does; returns the stages whose code has changed
    engine_lock.check(folder, "train")   # what a stage does first

A hash covers the modules of this package that a stage imports, by `runtime.code`: comments, formatting and the names of
local variables do not count. In `dvc.yaml` each stage depends on its own hash, so the file records which code the
entries of `dvc.lock` belong to, and a stage with different code refuses to run.
"""

from functools import cache
from pathlib import Path

from tapeline.parsing import yaml_text
from tapeline.runtime import closure, code, files
from tapeline.runtime.errors import InputError

LOCK = "engine.lock"
STAGES = ("ingest", "train", "validate", "export")

_HEAD = "# The code that results are made of: a hash for each stage. `tapeline lock` writes this file.\n"


@cache
def current(stage: str) -> str:
    """Return the hash of the code that this process would run for a stage, 16 hexadecimal digits."""
    return code.digest_of_modules(closure.of_module(f"tapeline.{stage}.stage"), closure.PACKAGE)[:16]


def recorded(folder: Path) -> dict[str, str]:
    """Return the recorded hashes by stage; empty without the file. Raises `InputError` if the file is malformed."""
    path = folder / LOCK
    if not path.exists():
        return {}
    try:
        content = yaml_text.parsed(files.read_bytes(path))
    except yaml_text.NotYaml as error:
        raise InputError(f"{LOCK}{error.where}: not YAML: {error}; run `tapeline lock`") from None
    if not isinstance(content, dict) or content.keys() != set(STAGES):
        raise InputError(f"{LOCK} must have a hash for each of {', '.join(STAGES)}: run `tapeline lock`")
    return {stage: str(content[stage]) for stage in STAGES}


def changed(folder: Path) -> list[str]:
    """Return the stages whose current hash differs from the recorded one."""
    said = recorded(folder)
    return [stage for stage in STAGES if said.get(stage) != current(stage)]


def write(folder: Path) -> list[str]:
    """Write the hashes of this code and return the stages whose hash differed; if none did, leave the file alone."""
    try:
        differing = changed(folder)
    except InputError:  # malformed or damaged: rewrite all of it
        differing = list(STAGES)
    if differing:
        files.write_text(folder / LOCK, _HEAD + "".join(f'{stage}: "{current(stage)}"\n' for stage in STAGES))
    return differing


def check(folder: Path, *stages: str) -> None:
    """Raise `InputError` if the recorded hash of one of these stages differs from the current one.

    A folder without the file passes; DVC itself refuses to run if `dvc.yaml` names a file that is missing.
    """
    said = recorded(folder)
    for stage in stages if said else ():
        if said[stage] != current(stage):
            raise InputError(
                f"{LOCK} says that {stage} is the code {said[stage]}, and here it is {current(stage)}: `tapeline lock` "
                f"takes this code, which makes {stage}'s stages stale; or use the tapeline that made the file"
            )
