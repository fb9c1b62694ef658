"""Making tags, through GTO's own Python interface, so that its rules are this registry's.

The caller holds the registry's lock: GTO asks whether a tag exists, and then writes it.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from tapeline.registry.repository import Repository
from tapeline.registry.tags import record, state
from tapeline.registry.tags.names import Artifact
from tapeline.registry.tags.state import Version
from tapeline.runtime.errors import InputError, RunError

STALE_LOCK = 1.0
"""Seconds after which a ref's lock file is one that a killed process left: it is held for milliseconds."""
AHEAD = 5.0
"""Seconds that the newest tag may be ahead of this clock."""


def register(repository: Repository, artifact: Artifact, version: str, commit: str, message: str) -> None:
    """Make the tag `NAME@vX.Y.Z`. Raises `InputError` with GTO's words where its rules forbid it."""
    from gto import api

    tag = f"{artifact.tag}@{version}"
    with _tagging(repository, tag):
        if _undatable(repository):
            _by_git(repository, tag, commit, message)
        else:
            api.register(repository.top, artifact.gto, commit, version=version, message=message)


def assign(repository: Repository, artifact: Artifact, version: Version, stage: str, message: str, tag: str) -> None:
    """Make the next tag `NAME#stage#number`, which is `tag` as GTO counts. Raises `InputError` with GTO's words."""
    from gto import api

    with _tagging(repository, tag):
        if _undatable(repository):
            _by_git(repository, tag, version.commit, message)
        else:
            # Forced: GTO takes a version that was once in a stage for one that still is.
            api.assign(repository.top, artifact.gto, stage, version=version.number, message=message, force=True)


@contextmanager
def _tagging(repository: Repository, tag: str) -> Iterator[None]:
    from gto.exceptions import GTOException
    from scmrepo.exceptions import SCMError

    wait_for_next_second(repository)
    _clear(repository, tag)
    try:
        yield
    except GTOException as error:
        raise InputError(f"GTO: {' '.join(str(error).split())}") from None
    except (SCMError, OSError) as error:
        raise RunError(f"the tag {tag} was not made: {' '.join(str(error).split())}") from None


def _undatable(repository: Repository) -> bool:
    """Return whether there is a tag on which GTO fails before it does anything: one that is dated beyond its years."""
    return any(state.EVENT.fullmatch(tag.name) and not record.datable(tag) for tag in repository.tags())


def _by_git(repository: Repository, tag: str, commit: str, message: str) -> None:
    """Make the very tag that GTO would have made."""
    repository.git("tag", "--annotate", "--cleanup=verbatim", "--message", message, tag, commit)


def wait_for_next_second(repository: Repository) -> None:
    """Be later than every tag: GTO and DVC sort by whole seconds, and two of one second would have no order."""
    newest = max(filter(record.datable, repository.tags()), key=lambda tag: tag.time, default=None)
    latest = newest.time if newest else 0
    if newest and latest - time.time() > AHEAD:
        ahead = latest - time.time()
        raise InputError(
            f"the newest tag, {newest.name}, is {ahead:.0f} s in the future: set this machine's clock, or delete it"
        )
    while time.time() < latest + 1:
        time.sleep(0.02)


def _clear(repository: Repository, tag: str) -> None:
    """Remove the lock of this very tag when whoever held it is gone."""
    lock = repository.common / "refs" / "tags" / f"{tag}.lock"
    deadline = time.monotonic() + STALE_LOCK
    while lock.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    lock.unlink(missing_ok=True)
