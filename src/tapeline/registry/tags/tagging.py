"""Create tags in GTO's form, and others that GTO ignores, by Git itself, which signs them; GTO's rules are held here.

GTO's own API reads every tag of the repository several times for one that it makes. The caller holds the registry's
lock: what is checked here is still so when the tag is written.
"""

import shlex
import time
from collections.abc import Callable
from pathlib import Path

from tapeline.parsing import yaml_text
from tapeline.registry.repository import Repository
from tapeline.registry.tags import record
from tapeline.registry.tags.names import EVENT, Artifact, of_tag, patterns
from tapeline.registry.trust import signing
from tapeline.runtime import files
from tapeline.runtime.errors import InputError, RunError

STALE_LOCK = 1.0
"""Seconds after which a ref's lock file counts as left by a killed process: normally it exists for milliseconds."""
AHEAD = 5.0
"""Seconds that the newest tag may be ahead of this machine's clock."""
GTO_SETTINGS = ".gto"
Counts = Callable[[str], bool]
"""Whether a tag counts by the trust policy, by its name."""


def check_artifact(repository: Repository, artifact: Artifact) -> None:
    """Raise `InputError` for a model in a folder whose name no tag can have, for Git's sake or GTO's."""
    tag = f"{artifact.tag}@v1.0.0"
    found = EVENT.fullmatch(tag)
    if not found or repository.git.ask("check-ref-format", f"refs/tags/{tag}") is None:
        raise InputError(f"no tag can be called {tag!r}: rename the folder {artifact.folder!r}")


def check_stage(repository: Repository, stage: str) -> None:
    """Raise `InputError` for a stage unknown to `.gto`."""
    allowed = _stages(repository.top / GTO_SETTINGS)
    if allowed is not None and stage not in allowed:
        raise InputError(f"{GTO_SETTINGS} allows the stages {', '.join(map(str, allowed))}: add {stage} there")


def make(repository: Repository, tag: str, commit: str, message: str, *, counts: Counts | None = None) -> None:
    """Make an annotated tag, later than every other of its model, signed if Git has a key.

    counts: by the trust policy, if there is one; then it must be signed. Raises `InputError` if a tag of that name
    exists, whatever it is, or one that leaves no room for it.
    """
    wait_for_next_second(repository, tag, counts)
    write(repository, tag, commit, message, signed=counts is not None)


def write(repository: Repository, tag: str, commit: str, message: str, *, signed: bool) -> None:
    """Make an annotated tag once `wait_for_next_second` has returned. Raises `InputError` as `make` does."""
    _clear(repository, tag)
    check_free(repository, tag)
    try:
        signing.tag(repository.git, tag, commit, message, required=signed)
    except OSError as error:
        raise RunError(f"the tag {tag} was not made: {' '.join(str(error).split())}") from None


def in_the_way(repository: Repository, tag: str) -> str:
    """Return a tag that leaves no room for one, which may be of that name; empty if none does.

    Git has a name as a file or as a folder: `a` and `a/b` cannot be both.
    """
    parents = {tag[:end] for end, one in enumerate(tag) if one == "/"}
    names = repository.tag_names()
    return next((name for name in names if name == tag or name in parents or name.startswith(f"{tag}/")), "")


def check_free(repository: Repository, tag: str) -> None:
    """Raise `InputError` if there is a tag of this name, whatever it is, or one that leaves no room for it."""
    if other := in_the_way(repository, tag):
        why = "already exists, and a tag is never changed" if other == tag else f"leaves no room for {tag}"
        raise InputError(f"the tag {other} {why}: `git tag --delete {shlex.quote(other)}`")


def _stages(path: Path) -> list[object] | None:
    """Return the stages that GTO's settings allow; None if they allow any. GTO refuses to read tags otherwise."""
    if not path.is_file():
        return None
    try:
        allowed = (yaml_text.parsed(files.read_bytes(path)) or {}).get("stages")
    except (yaml_text.NotYaml, AttributeError):
        raise InputError(f"{path}, which GTO reads, is not a YAML mapping: correct or remove it") from None
    return allowed if isinstance(allowed, list) else None


def wait_for_next_second(repository: Repository, tag: str, counts: Counts | None = None) -> None:
    """Wait until later than every tag of a tag's model.

    GTO and DVC sort them by whole seconds, so those of the same second have no order. Other tags do not matter.

    counts: by the trust policy; a tag of the future that does not count is not waited for. Raises `InputError` for
    another one of the future.
    """
    latest, now = 0, time.time()
    for name, moment in repository.tag_times(*patterns(of_tag(tag))):
        if not record.datable(moment):
            continue
        if moment - now <= AHEAD:
            latest = max(latest, moment)
        elif counts is None or counts(name):
            ahead = f"{moment - now:.0f} s in the future"
            raise InputError(f"the newest tag, {name}, is {ahead}: set this machine's clock, or delete it")
    while time.time() < latest + 1:
        time.sleep(0.02)


def _clear(repository: Repository, tag: str) -> None:
    """Remove the tag's lock file if its holder is gone."""
    lock = repository.common / "refs" / "tags" / f"{tag}.lock"
    deadline = time.monotonic() + STALE_LOCK
    while lock.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    lock.unlink(missing_ok=True)
