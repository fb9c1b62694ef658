"""The registry of one project: its tags, its lock and its serving folders.

registry = Registry.open(Project.find(), params)
with registry.alone():
    registry.align("digits")
"""

import re
import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tapeline.config.params import Params
from tapeline.config.project import Project
from tapeline.config.registry import RegistrySettings
from tapeline.registry import contents, judged
from tapeline.registry.authority import Authority
from tapeline.registry.contents import Contents
from tapeline.registry.repository import Repository, Tag
from tapeline.registry.serving import Serving
from tapeline.registry.store import Store
from tapeline.registry.tags import names, seen, state, tagging
from tapeline.registry.tags.names import Artifact, Reference
from tapeline.registry.tags.state import Assignment, State, Version
from tapeline.registry.trust.signed import Untrusted
from tapeline.registry.trust.verify import Signer
from tapeline.repository.recorded import Recorded
from tapeline.runtime import files, processes
from tapeline.runtime.errors import InputError, TapelineError, plain


@dataclass(frozen=True)
class Registry:
    """A project with its Git repository and its DVC store."""

    project: Project
    params: Params
    repository: Repository
    store: Store
    authority: Authority | None = None
    """Whose tags count by the trust policy; None without one."""
    quiet: bool = False
    """Whether a caller names the tags that are set aside itself."""
    warned: set[str] = field(default_factory=set)
    """The quarantined tags that were already reported: once per command."""
    _read: dict[str, tuple[list[Tag], State]] = field(default_factory=dict)
    """Model → its tags and what they say, as read once: anew whenever the lock is taken."""

    @classmethod
    def for_model(cls, project: Project, model: str) -> "Registry":
        """Open the registry for one model (`NAME`, `NAME@V` or `NAME#STAGE`); other pipelines' errors do not matter.

        Raises `InputError` for errors in `params.yaml` that concern the model's own pipeline.
        """
        name = re.split("[@#]", model)[0]
        return cls.open(project, Params.load_for(project.folder, pipeline=name), pipeline=name)

    @classmethod
    def open(cls, project: Project, params: Params, *, pipeline: str = "") -> "Registry":
        """Open the registry of a project.

        Raises `InputError` outside a Git repository with a commit, and for a trust policy that cannot be read.
        """
        repository = Repository(project.folder)
        return cls(project, params, repository, Store(project.folder), Authority.of(repository, pipeline))

    @property
    def deciding(self) -> Params:
        """The settings by which a promotion is decided: those of the trust policy's ref, else the working tree's."""
        return self.authority.policy.params if self.authority else self.params

    @property
    def settings(self) -> RegistrySettings:
        """The stages and the bounds."""
        return self.deciding.registry

    @property
    def work(self) -> Path:
        """The main checkout's folder for verdicts, copies and the lock."""
        return self.project.shared / "registry"

    def artifact(self, name: str) -> Artifact:
        """Return a model with its GTO name."""
        return Artifact(name, self.repository.inside)

    def state(self, name: str) -> State:
        """Return one model's state according to the tags, as it was when this command, or its lock, first asked."""
        if name not in self._read:
            self._take(name, self.repository.tags(*state.patterns(self.artifact(name))))
        found = self._read[name][1]
        self._warn(found)
        return found

    def _take(self, name: str, tags: list[Tag]) -> None:
        found = state.read(tags, self.artifact(name))
        if self.authority:
            self.authority.sift(found, self.settings.stages)
        self._read[name] = tags, found

    def _warn(self, found: State) -> None:
        for one in found.quarantined:
            if one.tag.name not in self.warned:
                self.warned.add(one.tag.name)
                _say(f"the tag {one.tag.name} is ignored: {one.why}; `git tag --delete '{one.tag.name}'` removes it")
        for tag, why in found.aside.items():
            if not self.quiet and tag.name not in self.warned:
                self.warned.add(tag.name)
                _say(f"the tag {tag.name} does not count: {why}")

    @property
    def counts(self) -> tagging.Counts | None:
        """Whether a tag is signed by somebody of the signers, by its name; None without a trust policy."""
        return self._counts if self.authority else None

    def _counts(self, name: str) -> bool:
        found = self.repository.tags(f"refs/tags/{name}")
        return any(tag.name == name and self.authority is not None and self.authority.known(tag) for tag in found)

    def lost(self, name: str) -> list[str]:
        """Return a line for each of a model's tags that counted here once, and is gone or replaced."""
        self.state(name)
        artifact = self.artifact(name).tag
        return self.lost_of(self._read[name][0], lambda one: one == artifact)

    def lost_of(self, tags: list[Tag], wanted: Callable[[str], bool]) -> list[str]:
        """Return a line for each tag that counted here once and is not among `tags`. wanted: of which models."""
        return [seen.told(self.repository.common, tag, why) for tag, why in self._lost(tags, wanted).items()]

    def _lost(self, tags: list[Tag], wanted: Callable[[str], bool]) -> dict[str, str]:
        counts = self.authority.counted if self.authority else lambda *_: True
        return seen.lost(self.repository.common, tags, wanted, counts)

    def note(self, name: str, *more: str) -> None:
        """Remember what is in force for `lost`, and tags that were made here; hold the lock (`alone`)."""
        found = self.state(name)
        made = [tag for tag in self._read[name][0] if tag.name in more]
        try:
            seen.note(self.repository.common, [*seen.in_force(found, self.settings.stages), *made])
        except OSError as error:
            _say(f"which tags count is not noted in Git's folder: {error}")

    def check_undisputed(self, found: State, stage: str) -> None:
        """Raise `InputError` if somebody must look: by a policy, at a tag that counted here and is gone.

        Or at one that does not count, and is later than what is live in a stage.
        """
        if self.authority and (lost := self.lost(found.artifact.name)):
            raise InputError(lost[-1])
        if disputed := found.disputed.get(stage):
            tag = disputed[-1]
            raise InputError(
                f"the tag {tag.name}, which {tag.author} is said to have made, is not followed: {found.aside[tag]}; "
                "delete it here and on the remote, or promote another version"
            )

    def version_of(self, name: str, commit: str) -> Version | None:
        """Return the version of a commit, else the newest whose model has the same bytes as the commit's."""
        versions = list(reversed(self.state(name).versions.values()))
        here = (version for version in versions if version.commit == commit)
        of_commit = next((version for version in here if self.is_usable(version)), None)
        if of_commit or not versions:
            return of_commit
        model = self.repository.recorded(commit, name).model
        said = [(version, (version.record.get("model") or {}).get("md5", model)) for version in versions]
        # A commit is read only if its tag may be right.
        same = (version for version, md5 in said if md5 == model and self.is_usable(version))
        return next((version for version in same if self.recorded(version).model == model), None)

    def states(self) -> dict[str, State]:
        """Return the states of this project's models according to the tags, by name."""
        inside = self.repository.inside
        found = (s for s in state.read_all(self.repository.tags()).values() if s.artifact.folder == inside)
        states = {one.artifact.name: one for one in found}
        for artifact in seen.artifacts(self.repository.common):
            folder, _, name = artifact.rpartition("=")
            if folder == inside and state.is_model(artifact):
                states.setdefault(name, State(self.artifact(name)))  # every tag of it may be gone
        for one in states.values():
            if self.authority:
                self.authority.sift(one, self.settings.stages)
            self._warn(one)
        return states

    def serving(self, name: str) -> Serving:
        """Return a model's serving folder, which is in the main checkout even for a worktree."""
        main = self.repository.common.parent if self.repository.common.name == ".git" else self.repository.top
        return Serving(main / self.repository.inside / "serving" / name)

    def contents(self, version: Version) -> Contents:
        """Return the bytes of a version's model; say once if its tag has no SHA-256.

        Raises `InputError` for a revoked version, and if tag and commit contradict each other.
        """
        self.check_usable(version)
        found = contents.of_model(self.trusted(version), self.recorded(version))
        if found.sums is None and version.tag.name not in self.warned:
            self.warned.add(version.tag.name)
            _say(f"{version.tag.name} was registered without SHA-256: its bytes are checked by MD5 only")
        return found

    def check_usable(self, version: Version) -> None:
        """Raise `InputError` for a version that is revoked, or that nobody signed who may register."""
        self.check_not_revoked(version.name, version.number)
        self.trusted(version)

    def check_not_revoked(self, name: str, number: str) -> None:
        """Raise `InputError` if a version is revoked, or, by a policy, if a revocation that counted here is gone."""
        artifact = self.artifact(name)
        if revoked := self.state(name).revoked.get(number):
            raise InputError(f"{artifact.tag}@{number} is {revoked}: use another version, or register a new one")
        if self.authority is None:
            return
        for tag, why in self._lost(self._read[name][0], lambda one: one == artifact.tag).items():
            if state.revokes(tag, artifact, number):
                raise InputError(seen.told(self.repository.common, tag, why))

    def is_usable(self, version: Version) -> bool:
        """Return whether a version counts by the policy, if there is one."""
        if self.authority is None:
            return True
        try:
            self.authority.version(self.state(version.name), version)
        except Untrusted:
            return False
        return True

    def trusted(self, version: Version) -> Version:
        """Return a version with the record that counts by the policy. Raises `InputError` if none does."""
        if self.authority is None:
            return version
        try:
            record = self.authority.version(self.state(version.name), version)
        except Untrusted as why:
            way = f"one who may register can sign for it: `tapeline registry vouch {version.tag.name}`"
            raise InputError(f"{version.tag.name} is not used: {why}; {way}") from None
        if not (record.get("sha256") or {}).get(contents.MODEL):
            name = version.tag.name
            raise InputError(f"{name} has no SHA-256 of its files: `tapeline registry vouch {name}` signs them")
        return replace(version, record=dict(record))

    def recorded(self, version: Version) -> Recorded:
        """Return what the lock of a version's commit records."""
        return self.repository.recorded(version.commit, version.name)

    def stage(self, name: str) -> str:
        """Return a stage's name. Raises `InputError` for one that `params.yaml` does not have."""
        names.check_stage(name)
        if name not in self.settings.stages:
            raise InputError(f"no stage {name!r}: params.yaml has {', '.join(self.settings.stages)}")
        return name

    def version(self, reference: Reference) -> Version:
        """Return the referenced version: by number, live in a stage, or the highest. Raises `InputError` if none."""
        found = self.state(reference.name)
        if not found.versions:
            raise InputError(
                f"{reference.name} has no version: `tapeline registry register {reference.name}` makes one"
            )
        if reference.stage:
            self.check_undisputed(found, reference.stage)
            live = found.live(self.stage(reference.stage))
            if live is None:
                raise InputError(_nothing_live(found, reference.stage))
            return found.versions[live.version]
        if reference.version is None:
            return list(found.versions.values())[-1]
        if reference.version not in found.versions:
            raise InputError(f"no version {reference}: there are {', '.join(found.versions)}")
        return found.versions[reference.version]

    def version_numbered(self, name: str, number: str) -> Version:
        """Return a version by its number. Raises `InputError` if there is none."""
        return self.version(Reference(name, version=number))

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the registry's lock; wait for another command that holds it, and report once which one."""
        with processes.exclusive(self.work / "lock", waiting=_say):
            self._read.clear()
            yield

    def made(self, name: str, tag: str) -> State:
        """Return a model's state with a tag that was made just now; hold the lock (`alone`)."""
        tags = [*self._read[name][0], *self.repository.tags(f"refs/tags/{tag}")] if name in self._read else []
        self._read.pop(name, None)
        if tags:
            self._take(name, sorted(tags, key=lambda tag: tag.time))
        self.note(name, tag)
        return self.state(name)

    def latest(self, name: str) -> dict[str, str] | None:
        """Return name and object of a model's latest tag, for the record of the next; None if there is none.

        By a policy one that a signer signed: what others have tagged may go again.
        """
        if name not in self._read:
            self.state(name)
        tags = reversed(self._read[name][0])
        last = next((tag for tag in tags if self.authority is None or self.authority.known(tag)), None)
        return {"tag": last.name, "object": last.object} if last else None

    def own(self, rule: str, stage: str = "") -> Signer | None:
        """Return who this user is by the key; None without a policy.

        rule: `register`, `promote`, `approve` or `revoke`. Raises `InputError` for one who may not.
        """
        if self.authority is None:
            return None
        trust = self.authority.policy.settings
        rules = {"register": trust.register_, "revoke": trust.revoke}
        people = rules[rule] if rule in rules else getattr(trust, rule).get(stage)
        if people is None:
            name = self.authority.policy.name
            raise InputError(f"by the policy of {name}, nobody may {rule} for {stage}: registry.trust.{rule} lacks it")
        return self.authority.own(people, f"{rule} {f'for {stage}' if stage else 'versions'}")

    def tell_unverified(self) -> None:
        """Say that nobody verifies the tags, once in a repository."""
        told = self.work / "unverified"
        if self.authority is None and not told.exists():
            _say("tags are not verified here; `registry.trust` in params.yaml would say whose signatures count")
            files.write_text(told, "It was said that tags are not verified.\n")

    def align(self, name: str, *, make: bool = False) -> None:
        """Align the serving folder with the tags: the live version becomes its highest integer.

        Does nothing without a folder, because not every machine serves, unless `make` is set. Empties the folder only
        if a tag has unassigned or revoked what was live, and keeps no revoked version. Raises `InputError`, and leaves
        the folder as it is, for an assignment whose verdict is not yes and for bytes that are not the registered ones.
        """
        serving = self.serving(name)
        if not (serving.exists or make):
            return
        found = self.state(name)
        live = found.live(self.settings.served)
        if live is None:
            # A stage that never had a version may be new in params.yaml; the folder is still the former stage's.
            if any(event.stage == self.settings.served for event in found.assignments):
                serving.clear()
        else:
            judged.check_assignment(live)
            self._put(serving, found.versions[live.version])
        serving.drop(found.revoked)
        serving.tidy()

    def _put(self, serving: Serving, version: Version) -> None:
        found = self.contents(version)
        serving.put(version.number, found.md5, self.store, sums=found.sums)

    def withdraw(self, name: str) -> None:
        """Remove what is revoked from the serving folder, and everything if that was live; hold the lock (`alone`)."""
        serving, found = self.serving(name), self.state(name)
        standing = found.standing(self.settings.served)
        if standing and standing.version in found.revoked:
            serving.clear()
        serving.drop(found.revoked)

    def served_otherwise(self, name: str) -> str:
        """Return in what a serving folder is not as the tags say; empty if there is none or it is. Changes nothing."""
        serving = self.serving(name)
        if not serving.exists:
            return ""
        found, stage = self.state(name), self.settings.served
        if not any(event.stage == stage for event in found.assignments):
            return ""  # a new stage, and the folder is still the former one's
        live, index = found.live(stage), serving.live()
        wanted, served = live.version if live else None, str(index["version"]) if index else None
        if wanted == served and (index or not serving.integers()):
            return ""
        return f"{serving.folder} has {served or 'nothing whole'}, and by the tags {wanted or 'nothing'} is in {stage}"

    def _align_or_say(self, name: str) -> None:
        try:
            self.align(name)
        except (TapelineError, OSError) as error:
            _say(f"the serving folder of {name} is not in line with the tags: {error}")

    def next_tag(self, name: str, stage: str) -> str:
        """Return the tag of the next assignment; hold the lock (`alone`)."""
        artifact = self.artifact(name)
        number = state.counter(self.repository.tag_names(f"refs/tags/{artifact.tag}#*"), artifact) + 1
        while tagging.in_the_way(self.repository, tag := f"{artifact.tag}#{stage}#{number}").startswith(tag):
            number += 1
        return tag

    def free_name(self, tag: str) -> str:
        """Return a name for a revocation or an attestation: by a policy another one if that is taken."""
        if self.authority and tagging.in_the_way(self.repository, tag):
            return state.elsewhere(tag, secrets.token_hex(6))
        return tag

    def assign(self, version: Version, stage: str, record: dict[str, Any]) -> Assignment:
        """Make a version live in a stage: first the serving folder, then the tag. Safe to repeat; hold the lock.

        Needs only this version's bytes, so that a rollback works even if the current version's bytes are lost.
        """
        # First, so that folder and tag change close together.
        tagging.wait_for_next_second(self.repository, self.counts)
        tagging.check_free(self.repository, tag := self.next_tag(version.name, stage))
        if stage == self.settings.served:
            self._put(self.serving(version.name), version)
        record = {**record, "version_tag": version.tag.object, "before": self.latest(version.name)}
        text = state.message(f"{record['action']} {version.tag.name} to {stage}", record)
        tagging.assign(self.repository, version, stage, text, tag, signed=self.authority is not None)
        live = self.made(version.name, tag).live(stage)
        self.tell_unverified()
        if stage == self.settings.served:
            self._align_or_say(version.name)
        assert live is not None, "the tag was just made"
        return live


def _nothing_live(found: State, stage: str) -> str:
    """Return why no version is live in a stage, and what to do."""
    standing, name = found.standing(stage), found.artifact.name
    if standing is None:
        return f"no version of {name} is in {stage}: promote one"
    revoked = found.revoked[standing.version]
    return (
        f"{name}@{standing.version}, which was in {stage}, is {revoked}: `tapeline registry rollback {name} {stage}`, "
        "or promote another"
    )


def _say(line: str) -> None:
    print(f"tapeline: {plain(line)}", file=sys.stderr, flush=True)
