"""The tags that counted in this clone once, noted in Git's own folder, where no fetch writes.

seen.note(common, tags)
seen.lost(common, tags, lambda artifact: artifact == "digits", authority.counted)     # name → what to say of it

Each tag names the one before it, so one that is gone from the middle is found; the latest tags could be cut off unseen.
"""

import shlex
from collections.abc import Callable, Iterable
from pathlib import Path

from tapeline.registry.repository import Tag
from tapeline.registry.tags.names import artifact_of
from tapeline.registry.tags.state import State
from tapeline.repository import notes

NAME, WITHDRAWN = "tags", "withdrawn"
"""The lists of those that counted, and of those that were deleted here, since no other clone had seen them."""


def in_force(found: State, stages: Iterable[str]) -> list[Tag]:
    """Return the tags that decide what is live in these stages, and what may never be."""
    standing = [event.tag for stage in stages if (event := found.standing(stage))]
    revoked = [one.tag for one in found.revoked.values()]
    return [*standing, *revoked, *(back.tag for _, back in found.gone.values())]


def note(common: Path, tags: Iterable[Tag]) -> None:
    """Remember tags."""
    known = set(notes.lines(common, NAME))
    if new := [line for tag in tags if (line := f"{tag.object} {tag.name}") not in known]:
        notes.append(common, NAME, *dict.fromkeys(new))


def withdraw(common: Path, tag: Tag) -> None:
    """Forget a tag that is to be deleted, and that no other clone has seen."""
    notes.append(common, WITHDRAWN, f"{tag.object} {tag.name}")


def lost(
    common: Path, tags: Iterable[Tag], wanted: Callable[[str], bool], counts: Callable[[str], bool]
) -> dict[str, str]:
    """Return the noted tags that are not among `tags`, and what to say of each.

    wanted: of which models, by the prefix of their tags. counts: whether an object counts still.
    """
    there = {tag.name: tag.object for tag in tags}
    found = {}
    for name, made in _noted(common):
        artifact = artifact_of(name)
        if artifact and wanted(artifact) and there.get(name) != made and counts(made):
            found[name] = _told(common, name, made, is_there=name in there)
    return found


def noted(common: Path, artifact: str) -> set[tuple[str, str]]:
    """Return name and object of the noted tags of a model."""
    return {(name, made) for name, made in _noted(common) if artifact_of(name) == artifact}


def artifacts(common: Path) -> set[str]:
    """Return the models of which a tag was noted."""
    return {artifact for name, _ in _noted(common) if (artifact := artifact_of(name))}


def way_out(common: Path, name: str, before: str) -> str:
    """Return what to do about a tag that was made after `before`, of which the remote has another's."""
    return (
        f"if two people made {before} at once, remove the lines of {before} and {name} from "
        f"{notes.path(common, NAME)}, `git tag --delete {shlex.quote(name)}`, also on the remote, and run again what "
        f"made {name}"
    )


def way_on(common: Path, name: str, remote: str) -> str:
    """Return what to do about a tag that was never pushed to a remote, which has another of that name."""
    return (
        f"{remote} has another {name} than this clone; if nothing depends on the one here, `git tag --delete "
        f"{shlex.quote(name)}`, remove its line from {notes.path(common, NAME)}, `git fetch --tags {remote}` and run "
        "again"
    )


def _told(common: Path, name: str, made: str, *, is_there: bool) -> str:
    ref = shlex.quote(f"refs/tags/{name}")
    why, done = ("is a different tag now", "replaced") if is_there else ("is gone", "deleted")
    return (
        f"the tag {name}, which counted here, {why}: `git fetch --tags --force` brings it back if the remote has "
        f"it, else `git update-ref {ref} {made}`; if it was {done} on purpose, remove its line from "
        f"{notes.path(common, NAME)}"
    )


def _noted(common: Path) -> list[tuple[str, str]]:
    withdrawn = set(notes.lines(common, WITHDRAWN))
    lines = (line.partition(" ") for line in notes.lines(common, NAME) if line not in withdrawn)
    return [(name, made) for made, _, name in lines if name]
