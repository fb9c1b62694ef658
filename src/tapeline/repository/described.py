"""On which machine a training was made that DVC's run-cache has restored: nothing was trained that could write it.

`runs/NAME/environment.json` is no output, because it differs where the bytes are the same. A commit of results, and a
checkout with results, have it beside the `dvc.lock` that says what was trained.
"""

from collections.abc import Iterator
from pathlib import Path

from tapeline.config.project import RUN_BRANCHES
from tapeline.parsing import json_text
from tapeline.repository.dvc_lock import LOCK, Lock, Stage
from tapeline.repository.git import Git
from tapeline.runtime import files
from tapeline.runtime.errors import InputError, RunError


def path(pipeline: str) -> str:
    """Return the description's path in the project."""
    return f"runs/{pipeline}/environment.json"


def bring(folder: Path, pipeline: str) -> str:
    """Write the description that another record of this very training has, and return whose; empty if none has.

    The newest run comes first, then what the other checkouts have, committed or not, then branches and experiments.
    """
    git = Git(folder)
    if made := _trained(files.read_bytes(folder / LOCK), pipeline):
        for name, text, described in _records(git, path(pipeline)):
            if text and described and _is_record(described) and _trained(text, pipeline) == made:
                files.write_text(folder / path(pipeline), f"{described}\n")
                return name
    return ""


def _records(git: Git, described: str) -> Iterator[tuple[str, str | None, str | None]]:
    """Yield the name, the `dvc.lock` and the description of each."""
    yield from _committed(git, f"refs/heads/{RUN_BRANCHES}", described)
    inside = git.ask("rev-parse", "--show-prefix") or ""
    for folder, _ in _worktrees(git):
        other = folder / inside
        if other.resolve() != git.folder.resolve():
            yield (str(other), _text(other / LOCK), _text(other / described))
    for refs in ("refs/heads/", "refs/exps/"):
        yield from _committed(git, refs, described)


def _worktrees(git: Git) -> list[tuple[Path, str]]:
    try:
        return git.worktrees()
    except (InputError, RunError):  # outside a repository, or in one of another user
        return []


def _committed(git: Git, refs: str, described: str) -> Iterator[tuple[str, str | None, str | None]]:
    """Yield what the refs below one have, the newest commit first."""
    listed = git.ask("for-each-ref", "--sort=-committerdate", "--format=%(refname)", refs) or ""
    for ref in filter(None, listed.split("\n")):
        lock, text = (git.ask("show", f"{ref}:./{file}") for file in (LOCK, described))
        yield ref.removeprefix("refs/heads/"), lock, text


def _text(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8").rstrip("\n")
    except (OSError, UnicodeError):  # a checkout may be on a disk that is not mounted
        return None


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
