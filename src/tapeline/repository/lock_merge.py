"""Merge a `dvc.lock` that Git could not: by stage, since the entries do not depend on each other.

Git merges lines, so two branches that have run different stages conflict where these stand side by side.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tapeline.parsing import yaml_text
from tapeline.repository.dvc_lock import LOCK, Lock
from tapeline.repository.git import Git
from tapeline.runtime.errors import InputError

BASE, OURS, THEIRS = "1", "2", "3"
"""Git's numbers of the versions in its index."""
BOTH = "both"
NAMES = {BASE: "the common ancestor", OURS: "ours", THEIRS: "theirs"}


@dataclass(frozen=True)
class Merged:
    """The merged file, and the names of stages by where they are from."""

    text: str
    ours: tuple[str, ...]
    """Changed or removed on our side only."""
    theirs: tuple[str, ...]
    both: tuple[str, ...]
    """Changed on both sides, and taken from the chosen one."""


def sides(folder: Path) -> dict[str, bytes]:
    """Return the versions of a folder's `dvc.lock` that Git keeps of a conflict; none where it is not one of two."""
    git = Git(folder)
    found = git.ask("ls-files", "--unmerged", "-z", "--", LOCK) or ""
    kept = [entry.partition("\t")[0].split() for entry in found.split("\0") if entry]
    versions = {number: git.raw("blob", blob) or b"" for _, blob, number in kept}
    return versions if {OURS, THEIRS} <= versions.keys() else {}


def chosen(versions: Mapping[str, bytes], content: bytes) -> str | None:
    """Return the side that a file is, as after `git checkout --ours` or `--theirs`."""
    tree = yaml_text.parsed_or_none(content)
    same = (side for side in (OURS, THEIRS) if tree and yaml_text.parsed_or_none(versions[side]) == tree)
    return next(same, None)


def merged(versions: Mapping[str, bytes], side: str | None) -> Merged:
    """Merge the versions. side: whose entry is taken where both sides have changed it.

    Raises `InputError` where no side is chosen, naming these entries, and for a version that is no lock.
    """
    base, ours, theirs = (_entries(versions.get(one, b""), NAMES[one]) for one in (BASE, OURS, THEIRS))
    changed: dict[str, list[str]] = {OURS: [], THEIRS: [], BOTH: []}
    taken = {}
    for key in dict.fromkeys([*ours, *theirs]):
        was, our, their = (entries.get(key) for entries in (base, ours, theirs))
        by = OURS if their == was else THEIRS if our == was else BOTH
        if our != their:
            changed[by].append(str(key[1]))
        taken[key] = our if by == OURS or (by == BOTH and side == OURS) else their
    if (both := changed[BOTH]) and side is None:
        raise InputError(
            f"both sides of the merge changed {', '.join(both)}: `git checkout --ours {LOCK}` or `git checkout "
            f"--theirs {LOCK}` chooses a side, then `tapeline repair` adds what only the other side changed"
        )
    from tapeline.repository.dvc.lock_file import lock_text

    rest = {name: entry for (part, name), entry in taken.items() if not part and entry is not None}
    stages = {name: entry for (part, name), entry in taken.items() if part and entry is not None}
    text = lock_text({**rest, "stages": stages})
    return Merged(text, *(tuple(changed[by]) for by in (OURS, THEIRS, BOTH)))


def _entries(content: bytes, name: str) -> dict[tuple[str, str], Any]:
    """Return the stages by `("stages", name)`, and what else stands in a lock by `("", name)`."""
    Lock.read(content, of=name)
    tree = yaml_text.parsed(content) or {}
    rest = {("", key): value for key, value in tree.items() if key != "stages"}
    return {**rest, **{("stages", stage): entry for stage, entry in tree.get("stages", {}).items()}}
