"""Create tags in GTO's form, and others that GTO ignores, by Git itself, which signs them; GTO's rules are held here.

GTO's own API reads every tag of the repository several times for one that it makes. The caller holds the registry's
lock: what is checked here is still so when the tag is written.
"""

import time
from pathlib import Path

from tapeline.parsing import yaml_text
from tapeline.registry.repository import Repository
from tapeline.registry.tags import record
from tapeline.registry.tags.state import State, Version
from tapeline.registry.trust import signing
from tapeline.runtime import files
from tapeline.runtime.errors import InputError, RunError

STALE_LOCK = 1.0
"""Seconds after which a ref's lock file counts as left by a killed process: normally it exists for milliseconds."""
AHEAD = 5.0
"""Seconds that the newest tag may be ahead of this machine's clock."""
GTO_SETTINGS = ".gto"


def register(
    repository: Repository, found: State, version: str, commit: str, message: str, *, signed: bool = False
) -> None:
    """Make the tag `NAME@vX.Y.Z`. Raises `InputError` if GTO's rules forbid it: a commit has one version of a model."""
    if version in found.versions:
        raise InputError(f"{found.artifact.tag}@{version} exists: a version is never changed")
    if same := [one.tag.name for one in found.versions.values() if one.commit == commit]:
        raise InputError(f"{commit[:10]} is {same[0]} already: one commit is one version of a model")
    make(repository, f"{found.artifact.tag}@{version}", commit, message, signed=signed)


def assign(
    repository: Repository, version: Version, stage: str, message: str, tag: str, *, signed: bool = False
) -> None:
    """Make the next tag `NAME#stage#number`, `tag` by GTO's count, once `wait_for_next_second` has returned.

    Raises `InputError` for a stage unknown to `.gto`.
    """
    allowed = _stages(repository.top / GTO_SETTINGS)
    if allowed is not None and stage not in allowed:
        raise InputError(f"{GTO_SETTINGS} allows the stages {', '.join(map(str, allowed))}: add {stage} there")
    _make(repository, tag, version.commit, message, signed)


def make(repository: Repository, tag: str, commit: str, message: str, *, signed: bool = False) -> None:
    """Make an annotated tag, later than every other, signed if Git has a key. signed: whether it must be.

    Raises `InputError` if a tag of that name exists, whatever it is.
    """
    wait_for_next_second(repository)
    _make(repository, tag, commit, message, signed)


def _make(repository: Repository, tag: str, commit: str, message: str, signed: bool) -> None:
    _clear(repository, tag)
    if repository.git.ask("show-ref", "--verify", "--quiet", f"refs/tags/{tag}") is not None:
        raise InputError(f"the tag {tag} already exists, and a tag is never changed: `git tag --delete '{tag}'`")
    try:
        signing.tag(repository.git, tag, commit, message, required=signed)
    except OSError as error:
        raise RunError(f"the tag {tag} was not made: {' '.join(str(error).split())}") from None


def _stages(path: Path) -> list[object] | None:
    """Return the stages that GTO's settings allow; None if they allow any. GTO refuses to read tags otherwise."""
    if not path.is_file():
        return None
    try:
        allowed = (yaml_text.parsed(files.read_bytes(path)) or {}).get("stages")
    except (yaml_text.NotYaml, AttributeError):
        raise InputError(f"{path} is not a mapping in YAML, and GTO reads it: correct or remove it") from None
    return allowed if isinstance(allowed, list) else None


def wait_for_next_second(repository: Repository) -> None:
    """Wait until later than every tag: GTO and DVC sort by whole seconds, so tags of the same second have no order."""
    newest = max(filter(record.datable_at, repository.tag_times()), key=lambda tag: tag[1], default=None)
    name, latest = newest or ("", 0)
    if latest - time.time() > AHEAD:
        ahead = latest - time.time()
        raise InputError(
            f"the newest tag, {name}, is {ahead:.0f} s in the future: set this machine's clock, or delete it"
        )
    while time.time() < latest + 1:
        time.sleep(0.02)


def _clear(repository: Repository, tag: str) -> None:
    """Remove the tag's lock file if its holder is gone."""
    lock = repository.common / "refs" / "tags" / f"{tag}.lock"
    deadline = time.monotonic() + STALE_LOCK
    while lock.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    lock.unlink(missing_ok=True)
