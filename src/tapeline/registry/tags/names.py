"""Names, versions and stages, checked before they reach Git or a path; the tags have GTO's format.

parse("digits@v1.2.0")     Reference("digits", version="v1.2.0")
parse("digits#prod")       Reference("digits", stage="prod")
Artifact("digits", "gallery").tag     "gallery=digits"
"""

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, get_args

from tapeline.config.params import NAME
from tapeline.config.registry import STAGE
from tapeline.runtime.errors import InputError

DIGITS = 9
NUMBER = rf"(?:0|[1-9][0-9]{{0,{DIGITS - 1}}})"
VERSION = re.compile(rf"v({NUMBER})\.({NUMBER})\.({NUMBER})")
Bump = Literal["patch", "minor", "major"]
BUMPS: tuple[Bump, ...] = get_args(Bump)
EVENT = re.compile(
    rf"(?P<artifact>[^@#]+)(?:@(?P<version>{VERSION.pattern})|#(?P<stage>[A-Za-z0-9][\w/-]*?))(?P<back>!?)(?:#(?P<counter>[0-9]+))?"
)
"""A tag of GTO's."""
OWN = r"tapeline(?:-[0-9a-f]{12})?"
"""The folder of Tapeline's own tags; with digits, unknown to anybody before, where a name is taken."""
ATTESTED = re.compile(
    rf"{OWN}/(?P<kind>approved|vouched)/(?P<artifact>[^@#]+)/(?P<version>{VERSION.pattern})/(?:(?P<stage>{STAGE.pattern})/)?\w+"
)
REVOKED = re.compile(rf"{OWN}/revoked/(?P<artifact>[^@#]+)/(?P<version>{VERSION.pattern})")


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
        raise InputError(f"{name!r} is not a model name: use lower-case letters, digits and inner hyphens")
    return name


def check_version(version: str) -> str:
    """Return a version with its `v`. Raises `InputError` for an invalid one."""
    with_v = version if version.startswith("v") else f"v{version}"
    if not VERSION.fullmatch(with_v):
        raise InputError(f"{version!r} is not a version: write three numbers, such as v1.0.0")
    return with_v


def check_stage(stage: str) -> str:
    """Return a stage's name. Raises `InputError` for an invalid one."""
    if not STAGE.fullmatch(stage):
        raise InputError(f"{stage!r} is not a stage name: use lower-case letters, digits and inner hyphens")
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
        raise InputError(f"no {bump} version comes after {highest}: give a number, or delete that tag")
    return found


def patterns(artifact: Artifact) -> tuple[str, ...]:
    """Return the patterns of `git for-each-ref` that select a model's tags."""
    return (f"refs/tags/{artifact.tag}@*", f"refs/tags/{artifact.tag}#*", f"refs/tags/tapeline*/*/{artifact.tag}/**")


def counter(names: Iterable[str], artifact: Artifact) -> int:
    """Return the highest counter of a model's tags. GTO counts across all stages, and lightweight tags too.

    A longer number than a version's is passed over: anybody can push one after which no name is short enough.
    """
    matches = [EVENT.fullmatch(name) for name in names]
    counters = [m["counter"] or "0" for m in matches if m and m["artifact"] == artifact.tag]
    return max((int(one) for one in counters if len(one) <= DIGITS), default=0)


def artifact_of(name: str) -> str | None:
    """Return the prefix of the model that a tag is about; None for any other tag."""
    found = EVENT.fullmatch(name) or REVOKED.fullmatch(name) or ATTESTED.fullmatch(name)
    return found["artifact"] if found else None


def of_tag(tag: str) -> Artifact:
    """Return the model that a tag is about. Raises `ValueError` for a tag about none."""
    artifact = artifact_of(tag)
    if artifact is None:
        raise ValueError(f"{tag!r} is about no model")
    folder, _, name = artifact.rpartition("=")
    return Artifact(name, folder)


def is_model(artifact: str) -> bool:
    """Return whether a tag's prefix ends in what may be a model's name: it becomes a folder's, and anybody may tag."""
    return bool(NAME.fullmatch(artifact.rpartition("=")[2]))


def revokes(name: str, artifact: Artifact, version: str) -> bool:
    """Return whether a tag of this name is about a version's revocation."""
    found = REVOKED.fullmatch(name)
    return found is not None and (found["artifact"], found["version"]) == (artifact.tag, version)


def attestation(artifact: Artifact, version: str, stage: str | None, record: dict[str, Any]) -> str:
    """Return the name of the tag with an attestation, which GTO ignores; two persons' have two names."""
    kind = "approved" if stage else "vouched"
    unique = hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()[:12]
    return "/".join(filter(None, ("tapeline", kind, artifact.tag, version, stage, unique)))


def revocation(artifact: Artifact, version: str) -> str:
    """Return the name of the tag that revokes a version; it has no `@` or `#`, so GTO ignores it."""
    return f"tapeline/revoked/{artifact.tag}/{version}"


def elsewhere(name: str, unique: str) -> str:
    """Return another name for a revocation or an attestation. unique: 12 hexadecimal digits."""
    return f"tapeline-{unique}{name.removeprefix('tapeline')}"
