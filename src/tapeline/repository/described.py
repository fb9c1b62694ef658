"""On which machine a training was made that DVC's run-cache has restored: nothing was trained that could write it.

`runs/NAME/environment.json` is no output, because it differs where the bytes are the same. The commit of an isolated
run has it beside the `dvc.lock` that says what was trained.
"""

from pathlib import Path

from tapeline.config.project import RUN_BRANCHES
from tapeline.parsing import json_text
from tapeline.repository.dvc_lock import LOCK, Lock, Stage
from tapeline.repository.git import Git
from tapeline.runtime import files
from tapeline.runtime.errors import InputError


def path(pipeline: str) -> str:
    """Return the description's path in the project."""
    return f"runs/{pipeline}/environment.json"


def bring(folder: Path, pipeline: str) -> str:
    """Write the description that the newest run of this very training has, and return its branch; empty if none has."""
    made = _trained(files.read_bytes(folder / LOCK), pipeline)
    git, place = Git(folder), f"refs/heads/{RUN_BRANCHES}"
    listed = git.ask("for-each-ref", "--sort=-committerdate", "--format=%(refname)", place) or ""
    for branch in filter(None, listed.split("\n") if made else ()):
        text, described = (git.ask("show", f"{branch}:./{name}") for name in (LOCK, path(pipeline)))
        if text and described and _is_record(described) and _trained(text, pipeline) == made:
            files.write_text(folder / path(pipeline), f"{described}\n")
            return branch.removeprefix("refs/heads/")
    return ""


def _trained(lock: bytes | str, pipeline: str) -> Stage | None:
    """Return the entry of the training; None if there is none, or the lock is damaged."""
    try:
        return Lock.read(lock).stages.get(f"train@{pipeline}")
    except InputError:
        return None


def _is_record(text: str) -> bool:
    try:
        return bool(json_text.mapping(text))
    except json_text.NotJson:
        return False
