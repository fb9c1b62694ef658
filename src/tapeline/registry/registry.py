"""The registry of one project: what its tags say, which of it counts, and its lock.

registry = Registry.open(Project.find(), params)
registry.state("digits").live("prod")
"""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from tapeline.config.params import Params
from tapeline.config.project import Project
from tapeline.config.registry import RegistrySettings
from tapeline.registry import contents, fetched
from tapeline.registry.authority import Authority
from tapeline.registry.contents import Contents
from tapeline.registry.repository import Repository, Tag
from tapeline.registry.store import Store
from tapeline.registry.tags import names, seen, state
from tapeline.registry.tags.names import Artifact, Reference
from tapeline.registry.tags.state import State, Version
from tapeline.registry.trust.signed import Untrusted
from tapeline.repository.recorded import Recorded
from tapeline.runtime import files, processes, streams
from tapeline.runtime.errors import InputError, RunError, plain


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
    _read: dict[str, tuple[list[Tag], State]] = field(default_factory=dict, init=False)
    """Model → its tags and what they say, as read once: anew whenever the lock is taken, and in a copy."""

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
            self._take(name, self.repository.tags(*names.patterns(self.artifact(name))))
        found = self._read[name][1]
        self._warn(found)
        return found

    def tags(self, name: str) -> list[Tag]:
        """Return one model's tags, oldest first, as `state` has read them."""
        self.state(name)
        return self._read[name][0]

    def _take(self, name: str, tags: list[Tag]) -> None:
        found = state.read(tags, self.artifact(name))
        if self.authority:
            self.authority.sift(found, self.settings.stages)
        self._read[name] = tags, found

    def _warn(self, found: State) -> None:
        for one in found.quarantined:
            if one.tag.name not in self.warned:
                self.warned.add(one.tag.name)
                say(f"the tag {one.tag.name} is ignored: {one.why}; `git tag --delete '{one.tag.name}'` deletes it")
        for tag, why in {**found.astray, **({} if self.quiet else found.aside)}.items():
            self._tell(tag, why)

    def _tell(self, tag: Tag, why: str) -> None:
        if tag.name not in self.warned:
            self.warned.add(tag.name)
            say(f"the tag {tag.name} does not count: {why}")

    def lost(self, name: str) -> dict[str, str]:
        """Return those of a model's tags that counted here once and are gone or replaced, and what to say of each."""
        artifact = self.artifact(name).tag
        return self.lost_of(self.tags(name), lambda one: one == artifact)

    def lost_of(self, tags: list[Tag], wanted: Callable[[str], bool]) -> dict[str, str]:
        """As `lost`, compared with `tags`, for the models that `wanted` accepts."""
        counts = self.authority.counted if self.authority else lambda _: True
        return seen.lost(self.repository.common, tags, wanted, counts)

    def note(self, name: str, *more: str) -> None:
        """Remember what is in force for `lost`, and tags that were made here; hold the lock (`alone`)."""
        made = [tag for tag in self.tags(name) if tag.name in more]
        try:
            seen.note(self.repository.common, [*seen.in_force(self.state(name), self.settings.stages), *made])
        except (OSError, InputError) as error:
            say(f"could not note in Git's folder which tags count: {error}")

    def check_undisputed(self, found: State, stage: str) -> None:
        """Raise `InputError` if somebody must look: by a policy, at a tag that counted here and is gone.

        Or at one that does not count, and is later than what is live in a stage.
        """
        if self.authority and (lost := self.lost(found.artifact.name)):
            raise InputError(list(lost.values())[-1])
        if disputed := found.disputed.get(stage):
            tag = disputed[-1]
            raise InputError(
                f"the tag {tag.name}, supposedly by {tag.author}, has no effect: {found.aside[tag]}; "
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
            if folder == inside and names.is_model(artifact):
                states.setdefault(name, State(self.artifact(name)))  # every tag of it may be gone
        for one in states.values():
            if self.authority:
                self.authority.sift(one, self.settings.stages)
            self._warn(one)
        return states

    def contents(self, version: Version) -> Contents:
        """Return the bytes of a version's model; say once if its tag has no SHA-256.

        Raises `InputError` for a revoked version, and if tag and commit contradict each other.
        """
        self.check_usable(version)
        found = contents.of_model(self.trusted(version), self.recorded(version))
        if found.sums is None and version.tag.name not in self.warned:
            self.warned.add(version.tag.name)
            say(f"{version.tag.name} was registered without SHA-256: its files are checked by MD5 only")
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
        if self.authority:
            for tag, said in self.lost(name).items():
                if names.revokes(tag, artifact, number):
                    raise InputError(said)

    def is_usable(self, version: Version) -> bool:
        """Return whether a version counts by the policy, if there is one."""
        return not self.why_unusable(version)

    def why_unusable(self, version: Version) -> str:
        """Return why a version does not count by the policy; empty if it does, and without a policy."""
        if self.authority is None:
            return ""
        try:
            self.authority.version(self.state(version.name), version)
        except Untrusted as why:
            return plain(str(why))
        return ""

    def trusted(self, version: Version) -> Version:
        """Return a version with the record that counts by the policy. Raises `InputError` if none does."""
        if self.authority is None:
            return version
        try:
            record = self.authority.version(self.state(version.name), version)
        except Untrusted as why:
            who = "anyone who may register and knows where it comes from can sign for it"
            way = f"{who}: `tapeline registry vouch {version.tag.name}`"
            raise InputError(f"{version.tag.name} does not count: {why}; {way}") from None
        if not (record.get("sha256") or {}).get(contents.MODEL):
            name = version.tag.name
            raise InputError(
                f"{name} does not record the SHA-256 of its files: `tapeline registry vouch {name}` signs them"
            )
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

    def check_registered(self, name: str) -> None:
        """Raise `InputError` for a model without a version; no version's signature is asked about."""
        if not self.state(name).versions:
            fetched.check(self.repository, name)
            raise InputError(f"{name} has no version: `tapeline registry register {name}` creates one")

    def version(self, reference: Reference) -> Version:
        """Return the referenced version: by number, live in a stage, or the highest. Raises `InputError` if none.

        By a policy the highest of those that count, if any does: anybody can push a tag with a higher number.
        """
        self.check_registered(reference.name)
        found = self.state(reference.name)
        if reference.stage:
            fetched.tell(self.repository, reference.name)
            self.check_undisputed(found, reference.stage)
            live = found.live(self.stage(reference.stage))
            if live is None:
                raise InputError(_nothing_live(found, reference.stage))
            return found.versions[live.version]
        if reference.version is None:
            return self._highest(list(reversed(found.versions.values())))
        if reference.version not in found.versions:
            raise InputError(f"no version {reference}: the versions are {', '.join(found.versions)}")
        return found.versions[reference.version]

    def _highest(self, versions: list[Version]) -> Version:
        passed: dict[Tag, str] = {}
        for version in versions:
            if not (why := self.why_unusable(version)):
                for tag, reason in ({} if self.quiet else passed).items():
                    self._tell(tag, reason)
                return version
            passed[version.tag] = why
        return versions[0]

    def version_numbered(self, name: str, number: str) -> Version:
        """Return a version by its number. Raises `InputError` if there is none."""
        return self.version(Reference(name, version=number))

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the registry's lock; wait for another command that holds it, and report once which one."""
        with processes.exclusive(self.work / "lock", waiting=say):
            self._read.clear()
            yield

    def forget(self, name: str) -> None:
        """Have a model's tags read anew: what was interrupted may have made one."""
        self._read.pop(name, None)

    def made(self, name: str, tag: str, *, live_in: str = "") -> State:
        """Return a model's state with a tag that was made just now; hold the lock (`alone`).

        live_in: the stage in which it puts a version. Raises `RunError`, and deletes the tag, if it does not count by
        the trust policy, or is not what is in force in that stage.
        """
        new = self.repository.tags(f"refs/tags/{tag}")
        tags = [*self._read[name][0], *new] if name in self._read else []
        self._read.pop(name, None)
        if tags:
            self._take(name, sorted(tags, key=lambda tag: tag.time))
        if why := self._useless(name, new[0], live_in):
            self._read.pop(name, None)
            self.repository.git("tag", "--delete", tag)
            raise RunError(f"deleted the tag {tag} again: {why}")
        self.note(name, tag)
        return self.state(name)

    def _useless(self, name: str, tag: Tag, stage: str) -> str:
        """Return why a new tag does not do what it is for; empty if it does."""
        if self.authority and (why := self.authority.why_unknown(tag)):
            return why
        found = self.state(name)
        if why := found.aside.get(tag, ""):
            return why
        standing = found.standing(stage) if stage else None
        if stage and (standing is None or standing.tag != tag):
            return f"by the tags, {standing.tag.name if standing else 'nothing'} is in force in {stage}"
        return ""

    def tell_unverified(self) -> None:
        """Say that nobody verifies the tags, once in a repository."""
        told = self.work / "unverified"
        if self.authority is None and not told.exists():
            say("tags are not verified here; set `registry.trust` in params.yaml to say whose signatures count")
            files.write_text(told, "It was said that tags are not verified.\n")


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


def say(line: str) -> None:
    """Print a line on stderr, as this program's."""
    streams.say(f"tapeline: {plain(line)}", sys.stderr)
