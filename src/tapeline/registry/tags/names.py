"""Names, versions and stages, checked before they reach Git or a path; the tags have GTO's format.

parse("digits@v1.2.0")     Reference("digits", version="v1.2.0")
parse("digits#prod")       Reference("digits", stage="prod")
Artifact("digits", "gallery").tag     "gallery=digits"
"""

import re
from dataclasses import dataclass

from tapeline.config.params import NAME
from tapeline.config.registry import STAGE
from tapeline.runtime.errors import InputError

NUMBER = r"(?:0|[1-9]\d{0,8})"
VERSION = re.compile(rf"v({NUMBER})\.({NUMBER})\.({NUMBER})")
BUMPS = ("patch", "minor", "major")


@dataclass(frozen=True)
class Reference:
    """A model, and one of its versions: by number, by stage, or neither."""

    name: str
    version: str | None = None
    stage: str | None = None

    def __str__(self) -> str:
        return self.name + (f"@{self.version}" if self.version else f"#{self.stage}" if self.stage else "")


@dataclass(frozen=True)
class Artifact:
    """A model as GTO names it: below the repository's root, the folder is a prefix."""

    name: str
    folder: str

    @property
    def tag(self) -> str:
        """The prefix of its tags."""
        return f"{self.folder}={self.name}" if self.folder else self.name

    @property
    def gto(self) -> str:
        """Its name in GTO and DVC."""
        return f"{self.folder}:{self.name}" if self.folder else self.name


def parse(text: str) -> Reference:
    """Return what `NAME`, `NAME@v1.0.0` or `NAME#stage` refers to. Raises `InputError` for anything else."""
    found = re.fullmatch(r"([^@#]*)(?:@([^@#]*)|#([^@#]*))?", text, re.DOTALL)
    if not found:
        raise InputError(f"{text!r} is not a model: give NAME, NAME@v1.0.0 or NAME#stage")
    name, version, stage = found.groups()
    check_name(name)
    if version is not None:
        version = check_version(version)
    if stage is not None:
        check_stage(stage)
    return Reference(name, version, stage)


def check_name(name: str) -> str:
    """Return a pipeline's name. Raises `InputError` for an invalid one."""
    if not NAME.fullmatch(name):
        raise InputError(f"{name!r} is not a model's name: lower-case letters, digits and inner hyphens")
    return name


def check_version(version: str) -> str:
    """Return a version with its `v`. Raises `InputError` for an invalid one."""
    with_v = version if version.startswith("v") else f"v{version}"
    if not VERSION.fullmatch(with_v):
        raise InputError(f"{version!r} is not a version: three numbers such as v1.0.0")
    return with_v


def check_stage(stage: str) -> str:
    """Return a stage's name. Raises `InputError` for an invalid one."""
    if not STAGE.fullmatch(stage):
        raise InputError(f"{stage!r} is not a stage's name: lower-case letters, digits and inner hyphens")
    return stage


def order(version: str) -> tuple[int, ...]:
    """Return the sort key of a version."""
    found = VERSION.fullmatch(version)
    return tuple(int(number) for number in found.groups()) if found else (-1, -1, -1)


def bumped(versions: list[str], bump: str) -> str:
    """Return the version after the highest of `versions`; the first is v1.0.0 whatever the bump.

    Raises `InputError` if the highest has the largest number there is: anybody can push such a tag.
    """
    if not versions:
        return "v1.0.0"
    major, minor, patch = max(order(version) for version in versions)
    after = {"major": (major + 1, 0, 0), "minor": (major, minor + 1, 0), "patch": (major, minor, patch + 1)}
    found = "v" + ".".join(str(number) for number in after[bump])
    if not VERSION.fullmatch(found):
        highest = max(versions, key=order)
        raise InputError(f"{highest} is there, and no {bump} version is after it: give a number, or delete that tag")
    return found
