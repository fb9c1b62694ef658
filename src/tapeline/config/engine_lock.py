"""`engine.lock`: what code a project's results are made of, as one hash for each stage.

    engine_lock.write(folder)            # what `tapeline lock` does; returns the stages whose code has changed
    engine_lock.check(folder, "train")   # what a stage does first

A hash is over the modules of this package that a stage reaches, by `runtime.code`: comments, formatting and the names
of local variables are no part of it. `dvc.yaml` has each stage depend on its own, so the file says which code the
records of `dvc.lock` are of, and a stage whose code is another refuses to run.
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
    """Return what a project's file says, by stage, or nothing. Raises `InputError` for another form."""
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
    """Return the stages whose code is not what a project's file says."""
    said = recorded(folder)
    return [stage for stage in STAGES if said.get(stage) != current(stage)]


def write(folder: Path) -> list[str]:
    """Write the hashes of this code, and return the stages whose hash was another; the file stays where none was."""
    try:
        differing = changed(folder)
    except InputError:  # of another form, or damaged: it is written anew
        differing = list(STAGES)
    if differing:
        files.write_text(folder / LOCK, _HEAD + "".join(f'{stage}: "{current(stage)}"\n' for stage in STAGES))
    return differing


def check(folder: Path, *stages: str) -> None:
    """Raise `InputError` where a project's file says another code for one of these stages.

    A folder without the file says nothing; DVC itself refuses it where `dvc.yaml` names one.
    """
    said = recorded(folder)
    for stage in stages if said else ():
        if said[stage] != current(stage):
            raise InputError(
                f"{LOCK} says that {stage} is the code {said[stage]}, and here it is {current(stage)}: `tapeline lock` "
                f"takes this code, which makes {stage}'s stages stale; or use the tapeline that made the file"
            )
