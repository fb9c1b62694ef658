"""The state that the tags define: versions, what is live in which stage, and its history. GTO's own rules.

A version's tag is `digits@v1.0.0`, an assignment's `digits#prod#3`; `!` revokes either. Live in a stage is the
version that was assigned last, of those that were not taken back, unless Tapeline's own tag
`tapeline/revoked/digits/v1.0.0`, which GTO ignores, says that it may never be live again.
"""

import gc
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tapeline.registry.repository import Tag
from tapeline.registry.tags import record as records
from tapeline.registry.tags.names import ATTESTED, EVENT, REVOKED, Artifact, is_model, order
from tapeline.runtime.errors import plain


@dataclass(frozen=True)
class Version:
    """A registered version: its tag, and the record in the tag's message (empty when plain GTO made it)."""

    name: str
    number: str
    """Such as `v1.0.0`."""
    tag: Tag
    record: dict[str, Any]

    @property
    def commit(self) -> str:
        """The commit whose `dvc.lock` holds the model."""
        return self.tag.commit


@dataclass(frozen=True)
class Assignment:
    """A version that was put into a stage, or taken out of it."""

    stage: str
    version: str
    tag: Tag
    back: bool
    record: dict[str, Any]


@dataclass(frozen=True)
class Quarantined:
    """A tag that is ignored, and why; the version that it registers, if any."""

    tag: Tag
    why: str
    version: str | None


@dataclass(frozen=True)
class Revocation:
    """Who said that a version may never be live again, and why."""

    tag: Tag
    because: str

    def __str__(self) -> str:
        return f"revoked by {self.tag.author}" + (f" ({self.because})" if self.because else "")


@dataclass(frozen=True)
class Attestation:
    """What somebody says about a version: it may go into a stage (`approved`), it may be used at all (`vouched`)."""

    kind: str
    version: str
    stage: str | None
    tag: Tag
    record: dict[str, Any]


@dataclass
class State:
    """One model's versions, lowest first, its assignments, oldest first, its quarantined tags and its revocations."""

    artifact: Artifact
    versions: dict[str, Version] = field(default_factory=dict)
    assignments: list[Assignment] = field(default_factory=list)
    quarantined: list[Quarantined] = field(default_factory=list)
    revoked: dict[str, Revocation] = field(default_factory=dict)
    """Version → its revocation, the first."""
    claimed: dict[str, list[Revocation]] = field(default_factory=dict)
    """Version → all tags that say it is revoked, oldest first."""
    said: dict[str, list[tuple[Version, bool]]] = field(default_factory=dict)
    """Number → all tags that register it, oldest first, and whether each takes it back."""
    gone: dict[str, tuple[Version, Version]] = field(default_factory=dict)
    """Version that was taken back → it, and the tag that did so."""
    attested: list[Attestation] = field(default_factory=list)
    aside: dict[Tag, str] = field(default_factory=dict)
    """The tags that do not count by the trust policy, and why."""
    astray: dict[Tag, str] = field(default_factory=dict)
    """The assignments on a commit that no tag registers, which GTO follows all the same, and what to say of each."""
    disputed: dict[str, list[Tag]] = field(default_factory=dict)
    """Stage → those of `aside` that are later than what is live there."""

    @property
    def numbers(self) -> list[str]:
        """The numbers in use, including those of quarantined versions."""
        return [*self.versions, *(one.version for one in self.quarantined if one.version)]

    def live(self, stage: str) -> Assignment | None:
        """Return the assignment that is in force in a stage; None if its version is revoked (nothing replaces it)."""
        standing = self.standing(stage)
        return None if standing and standing.version in self.revoked else standing

    def standing(self, stage: str) -> Assignment | None:
        """Return the assignment that is in force in a stage by GTO's rules, which know no revocation."""
        last = {event.version: event for event in self.assignments if event.stage == stage}
        standing = [event for event in last.values() if not event.back and event.version in self.versions]
        return max(standing, key=lambda event: event.tag.time, default=None)

    def deciding(self, stage: str) -> list[Assignment]:
        """Return the assignments that decide what is in force in a stage: that one, and all that are later."""
        standing = self.standing(stage)
        since = standing.tag.time if standing else 0
        return [event for event in self.assignments if event.stage == stage and event.tag.time >= since]

    def put(self, version: str, stage: str) -> list[Assignment]:
        """Return the assignments by which a version was put into a stage."""
        return [e for e in self.assignments if (e.version, e.stage, e.back) == (version, stage, False)]

    def restore(self, version: Version) -> None:
        """Put back a version that was taken back by a tag that does not count."""
        self.versions[version.number] = version
        self.versions = {name: self.versions[name] for name in sorted(self.versions, key=order)}

    def resaid(self, number: str, tags: Sequence[tuple[Version, bool]]) -> None:
        """Build a version anew from these of its tags in `said` alone, at least one."""
        self.versions.pop(number, None)
        self.gone.pop(number, None)
        last = tags[0][0]
        for version, back in tags:
            if back:
                self.gone[number] = last, version
            else:
                self.gone.pop(number, None)
                last = version
        if number not in self.gone:
            self.restore(last)

    def is_on_its_commit(self, event: Assignment) -> bool:
        """Return whether an assignment's tag is on the commit of its version, as that is now, or of none."""
        version = self.versions.get(event.version)
        return version is None or version.commit == event.tag.commit

    def stages(self, version: str) -> list[str]:
        """Return the stages in which a version is live."""
        names = dict.fromkeys(event.stage for event in self.assignments)
        return [name for name in names if (live := self.live(name)) and live.version == version]

    def revoked_since(self, version: str, stage: str) -> list[str]:
        """Return the revoked versions that were put into a stage after a version last was."""
        events = [event for event in self.assignments if event.stage == stage and not event.back]
        last = max((at for at, event in enumerate(events) if event.version == version), default=-1)
        return [name for name in dict.fromkeys(event.version for event in events[last + 1 :]) if name in self.revoked]

    def before(self, stage: str) -> str | None:
        """Return the version that a rollback goes to: the one live in the stage before the current one.

        Rollbacks undo steps: after v1, v2, v3 and back to v2, the previous one is v1. Revoked versions do not count.
        """
        trail: list[str] = []
        for event in self.assignments:
            if event.stage != stage or event.back or event.version not in self.versions.keys() - self.revoked.keys():
                continue
            if event.record.get("action") == "rollback" and event.version in trail:
                del trail[trail.index(event.version) + 1 :]
            elif not trail or trail[-1] != event.version:
                trail.append(event.version)
        live = self.live(stage)
        while trail and live and trail[-1] == live.version:
            trail.pop()
        return trail[-1] if trail else None


def read(tags: Iterable[Tag], artifact: Artifact) -> State:
    """Return one model's state."""
    return read_all(tags).get(artifact.tag, State(artifact))


def read_all(tags: Iterable[Tag]) -> dict[str, State]:
    """Return the state of every model of the repository by its tag prefix; `tags` are oldest first."""
    with _without_gc():
        return _read_all(list(tags))


@contextmanager
def _without_gc() -> Iterator[None]:
    """Collect no garbage meanwhile: a thousand records are none, and looking through them costs as much as reading."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _read_all(tags: Sequence[Tag]) -> dict[str, State]:
    states: dict[str, State] = {}
    numbers: dict[tuple[str, str], list[str]] = {}
    put: dict[tuple[str, str, str], dict[str, None]] = {}

    def of(artifact: str) -> State:
        folder, _, name = artifact.rpartition("=")
        return states.setdefault(artifact, State(Artifact(name, folder)))

    for tag, found in _events(tags):
        state = of(found["artifact"])
        try:
            record = records.of(tag)
        except ValueError as error:
            state.quarantined.append(Quarantined(tag, str(error), found["version"]))
            continue
        if version := found["version"]:
            made, before = Version(state.artifact.name, version, tag, record), state.versions.get(version)
            if (before.commit if before else None) != tag.commit:
                numbers.setdefault((found["artifact"], tag.commit), []).append(version)
            state.gone.pop(version, None)
            if found["back"]:
                state.gone[version] = before or made, made
            state.versions[version] = made
            state.said.setdefault(version, []).append((made, bool(found["back"])))
        elif names := numbers.get((found["artifact"], tag.commit)):
            back, said = bool(found["back"]), record.get("version")
            # Without a record, all that were put there are taken out: another's tag may have come later.
            here = put.setdefault((found["artifact"], found["stage"], tag.commit), {})
            which = [said] if said in names else list(here or dict.fromkeys(names)) if back else names[-1:]
            state.assignments += [Assignment(found["stage"], one, tag, back, record) for one in which]
            here |= {} if back else dict.fromkeys(which)
        else:
            why = f"its commit {tag.commit[:10]} is no version of {state.artifact.name} here"
            state.astray[tag] = f"{why}: `git fetch --tags` brings the version's tag, if the remote has it"
    for tag in tags:
        if (match := REVOKED.fullmatch(tag.name)) and is_model(match["artifact"]):
            about = Revocation(tag, _because(tag))
            of(match["artifact"]).revoked.setdefault(match["version"], about)
            of(match["artifact"]).claimed.setdefault(match["version"], []).append(about)
        elif (match := ATTESTED.fullmatch(tag.name)) and is_model(match["artifact"]):
            of(match["artifact"]).attested.append(
                Attestation(match["kind"], match["version"], match["stage"], tag, records.recorded(tag))
            )
    for state in states.values():
        for version in state.gone:
            del state.versions[version]
        state.versions = {name: state.versions[name] for name in sorted(state.versions, key=order)}
    return states


def _because(tag: Tag) -> str:
    """Return the reason of a revocation, which holds whatever its record is."""
    return plain(str(records.recorded(tag).get("because", "")))


def _events(tags: Iterable[Tag]) -> Iterator[tuple[Tag, dict[str, str | Any]]]:
    matches: Sequence[tuple[Tag, re.Match[str] | None]] = [(tag, EVENT.fullmatch(tag.name)) for tag in tags]
    # An assignment refers to the version on its commit, so all versions come first.
    for registering in (True, False):
        for tag, match in matches:
            if match and bool(match["version"]) == registering and is_model(match["artifact"]):
                yield tag, match.groupdict()
