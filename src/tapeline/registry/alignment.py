"""The serving folder in line with the tags, and a version that becomes live: first in the folder, then by its tag.

with registry.alone():
    align(registry, "digits")
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tapeline.registry import judged, making
from tapeline.registry.registry import Registry, say
from tapeline.registry.serving import Serving
from tapeline.registry.tags import tagging
from tapeline.registry.tags.record import message
from tapeline.registry.tags.state import Assignment, Version
from tapeline.runtime.errors import TapelineError


def serving(registry: Registry, name: str) -> Serving:
    """Return a model's serving folder, which is in the main checkout even for a worktree."""
    return Serving(registry.repository.main / registry.repository.inside / "serving" / name)


def align(registry: Registry, name: str, *, make: bool = False) -> None:
    """Align the serving folder with the tags: the live version becomes its highest integer.

    Does nothing without a folder, because not every machine serves, unless `make` is set. Empties the folder only
    if a tag has unassigned or revoked what was live, and keeps no revoked version. Raises `InputError`, and leaves
    the folder as it is, for an assignment whose verdict is not yes and for bytes that are not the registered ones.
    """
    folder = serving(registry, name)
    if not (folder.exists or make):
        return
    found, stage = registry.state(name), registry.settings.served
    live = found.live(stage)
    if live is None:
        # A stage that never had a version may be new in params.yaml; the folder is still the former stage's.
        if any(event.stage == stage for event in found.assignments):
            folder.clear()
    else:
        judged.check_assignment(live)
        _put(registry, found.versions[live.version])
    folder.drop(found.revoked)
    folder.tidy()


def _put(registry: Registry, version: Version) -> None:
    found = registry.contents(version)
    serving(registry, version.name).put(version.number, found.md5, registry.store, sums=found.sums)


def withdraw(registry: Registry, name: str) -> None:
    """Remove what is revoked from the serving folder, and everything if that was live; hold the lock (`alone`)."""
    folder, found = serving(registry, name), registry.state(name)
    standing = found.standing(registry.settings.served)
    if standing and standing.version in found.revoked:
        folder.clear()
    folder.drop(found.revoked)


def served_otherwise(registry: Registry, name: str) -> str:
    """Return how the serving folder differs from the tags; empty if it does not, or does not exist. Changes nothing."""
    folder = serving(registry, name)
    if not folder.exists:
        return ""
    found, stage = registry.state(name), registry.settings.served
    live, index = found.live(stage), folder.live()
    wanted, served = live.version if live else None, str(index["version"]) if index else None
    if not any(event.stage == stage for event in found.assignments):
        if served is None or any(event.version == served for event in found.assignments) or registry.lost(name):
            return ""  # a new stage, and the folder is still the former one's; or its tag is gone, which is told
        return f"{folder.folder} has {served}, but no tag that counts put it into a stage"
    if wanted == served and (index or not folder.integers()):
        return ""
    return f"{folder.folder} has {served or 'nothing complete'}, but by the tags {wanted or 'nothing'} is in {stage}"


def assign(registry: Registry, version: Version, stage: str, record: dict[str, Any]) -> Assignment:
    """Make a version live in a stage: first the serving folder, then the tag. Safe to repeat; hold the lock.

    Needs only this version's bytes, so that a rollback works even if the current version's bytes are lost. Where the
    tag cannot be made, or would not be in force, the folder is put back and the error raised.
    """
    tag = making.next_tag(registry, version.name, stage)
    # First, so that folder and tag change close together.
    tagging.wait_for_next_second(registry.repository, tag, making.counts(registry))
    tagging.check_stage(registry.repository, stage)
    tagging.check_free(registry.repository, tag)
    for line in registry.lost(version.name).values():
        say(line)
    record = {**record, "version_tag": version.tag.object, "before": making.latest(registry, version.name)}
    text = message(f"{record['action']} {version.tag.name} to {stage}", record)
    with _served(registry, version, stage):
        tagging.write(registry.repository, tag, version.commit, text, signed=registry.authority is not None)
        live = registry.made(version.name, tag, live_in=stage).standing(stage)
    assert live is not None, "`made` has looked"
    registry.tell_unverified()
    if stage == registry.settings.served:
        _align_or_say(registry, version.name)
    return live


@contextmanager
def _served(registry: Registry, version: Version, stage: str) -> Iterator[None]:
    """Have a version in the serving folder while its tag is made; put the folder back if it is not."""
    if stage != registry.settings.served:
        yield
        return
    folder = serving(registry, version.name)
    before, done = folder.integers(), False
    try:
        _put(registry, version)
        done = True
        yield
    except BaseException:
        registry.forget(version.name)
        changed = done or folder.integers() != before
        if changed and (before or registry.state(version.name).live(stage)):
            _align_or_say(registry, version.name)
        elif changed:
            folder.clear()
        raise


def _align_or_say(registry: Registry, name: str) -> None:
    try:
        align(registry, name)
    except (TapelineError, OSError) as error:
        say(f"the serving folder of {name} does not match the tags: {error}")
