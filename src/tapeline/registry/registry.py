"""The registry of one project: its tags, its lock and its serving folders.

registry = Registry.open(Project.find(), params)
with registry.alone():
    registry.align("digits")
"""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tapeline.config.params import Params
from tapeline.config.project import Project
from tapeline.config.registry import RegistrySettings
from tapeline.registry import lock_file
from tapeline.registry.repository import Repository
from tapeline.registry.serving import Serving
from tapeline.registry.store import Store
from tapeline.registry.tags import names, state, tagging
from tapeline.registry.tags.names import Artifact, Reference
from tapeline.registry.tags.state import Assignment, State, Version
from tapeline.runtime import processes
from tapeline.runtime.errors import InputError, TapelineError, plain


@dataclass(frozen=True)
class Registry:
    """A project with its Git repository and its DVC store."""

    project: Project
    params: Params
    repository: Repository
    store: Store
    warned: set[str] = field(default_factory=set)
    """The quarantined tags that were already reported: once per command."""

    @classmethod
    def for_model(cls, project: Project, model: str) -> "Registry":
        """Open the registry for one model (`NAME`, `NAME@V` or `NAME#STAGE`); other pipelines' errors do not matter.

        Raises `InputError` for errors in `params.yaml` that concern the model's own pipeline.
        """
        return cls.open(project, Params.load_for(project.folder, pipeline=re.split("[@#]", model)[0]))

    @classmethod
    def open(cls, project: Project, params: Params) -> "Registry":
        """Open the registry of a project. Raises `InputError` outside a Git repository with a commit."""
        return cls(project, params, Repository(project.folder), Store(project.folder))

    @property
    def settings(self) -> RegistrySettings:
        """The stages and the bounds."""
        return self.params.registry

    @property
    def work(self) -> Path:
        """The main checkout's folder for verdicts, copies and the lock."""
        return self.project.shared / "registry"

    def artifact(self, name: str) -> Artifact:
        """Return a model with its GTO name."""
        return Artifact(name, self.repository.inside)

    def state(self, name: str) -> State:
        """Return one model's state according to the tags."""
        found = state.read(self.repository.tags(), self.artifact(name))
        self._warn(found)
        return found

    def _warn(self, found: State) -> None:
        for one in found.quarantined:
            if one.tag.name not in self.warned:
                self.warned.add(one.tag.name)
                _say(f"the tag {one.tag.name} is ignored: {one.why}; `git tag --delete '{one.tag.name}'` removes it")

    def version_of(self, name: str, commit: str) -> Version | None:
        """Return the version of a commit, else the newest whose model has the same bytes as the commit's."""
        versions = list(reversed(self.state(name).versions.values()))
        of_commit = next((version for version in versions if version.commit == commit), None)
        if of_commit or not versions:
            return of_commit
        model = lock_file.recorded(self.repository, commit, name).model
        return next((version for version in versions if self.recorded(version).model == model), None)

    def states(self) -> dict[str, State]:
        """Return the states of this project's models according to the tags, by name."""
        inside = self.repository.inside
        found = (s for s in state.read_all(self.repository.tags()).values() if s.artifact.folder == inside)
        states = {state.artifact.name: state for state in found}
        for one in states.values():
            self._warn(one)
        return states

    def serving(self, name: str) -> Serving:
        """Return a model's serving folder, which is in the main checkout even for a worktree."""
        main = self.repository.common.parent if self.repository.common.name == ".git" else self.repository.top
        return Serving(main / self.repository.inside / "serving" / name)

    def recorded(self, version: Version) -> lock_file.Recorded:
        """Return what the lock of a version's commit records."""
        return lock_file.recorded(self.repository, version.commit, version.name)

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
            live = found.live(self.stage(reference.stage))
            if live is None:
                raise InputError(f"no version of {reference.name} is in {reference.stage}: promote one")
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
            yield

    def align(self, name: str, *, make: bool = False) -> None:
        """Align the serving folder with the tags: the live version becomes its highest integer.

        Does nothing without a folder, because not every machine serves, unless `make` is set. Empties the folder only
        if a tag has unassigned what was live.
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
            serving.put(live.version, self.recorded(found.versions[live.version]).model, self.store)
        serving.tidy()

    def align_quietly(self, name: str) -> None:
        """Align for a command that only shows; warn on failure, and continue."""
        if not self.serving(name).exists:
            return
        if any(self.state(name).quarantined):
            _say(f"the serving folder of {name} is left unchanged, since a tag is ignored")
            return
        try:
            with self.alone():
                self._align_or_say(name)
        except (TapelineError, OSError) as error:
            _say(f"the registry's lock cannot be taken, so {name} is shown as it is: {error}")

    def _align_or_say(self, name: str) -> None:
        try:
            self.align(name)
        except (TapelineError, OSError) as error:
            _say(f"the serving folder of {name} is not in line with the tags: {error}")

    def next_tag(self, name: str, stage: str) -> str:
        """Return the tag of the next assignment; hold the lock (`alone`)."""
        artifact = self.artifact(name)
        return f"{artifact.tag}#{stage}#{state.counter(self.repository.tag_names(), artifact) + 1}"

    def assign(self, version: Version, stage: str, record: dict[str, Any]) -> Assignment:
        """Make a version live in a stage: first the serving folder, then the tag. Safe to repeat; hold the lock.

        Needs only this version's bytes, so that a rollback works even if the current version's bytes are lost.
        """
        if stage == self.settings.served:
            tagging.wait_for_next_second(self.repository)  # here, so that folder and tag change close together
            self.serving(version.name).put(version.number, self.recorded(version).model, self.store)
        text = state.message(f"{record['action']} {version.tag.name} to {stage}", record)
        tag = self.next_tag(version.name, stage)
        tagging.assign(self.repository, self.artifact(version.name), version, stage, text, tag)
        self._align_or_say(version.name)
        live = self.state(version.name).live(stage)
        assert live is not None, "the tag was just made"
        return live


def _say(line: str) -> None:
    print(f"tapeline: {plain(line)}", file=sys.stderr, flush=True)
