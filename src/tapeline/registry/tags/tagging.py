"""Create tags through GTO's own Python API, so that its rules apply.

The caller holds the registry's lock: GTO checks whether a tag exists, and only then writes it.
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
"""Seconds after which a ref's lock file counts as left by a killed process: normally it exists for milliseconds."""
AHEAD = 5.0
"""Seconds that the newest tag may be ahead of this machine's clock."""


def register(repository: Repository, artifact: Artifact, version: str, commit: str, message: str) -> None:
    """Make the tag `NAME@vX.Y.Z`. Raises `InputError` with GTO's message if its rules forbid it."""
    from gto import api

    tag = f"{artifact.tag}@{version}"
    with _tagging(repository, tag):
        if _undatable(repository):
            _by_git(repository, tag, commit, message)
        else:
            api.register(repository.top, artifact.gto, commit, version=version, message=message)


def assign(repository: Repository, artifact: Artifact, version: Version, stage: str, message: str, tag: str) -> None:
    """Make the next tag `NAME#stage#number`, `tag` by GTO's count. Raises `InputError` with GTO's message."""
    from gto import api

    with _tagging(repository, tag):
        if _undatable(repository):
            _by_git(repository, tag, version.commit, message)
        else:
            # Forced: GTO believes that a version that was once in a stage still is.
            api.assign(repository.top, artifact.gto, stage, version=version.number, message=message, force=True)


def revoke(repository: Repository, artifact: Artifact, version: Version, message: str) -> None:
    """Make the tag that revokes a version: Tapeline's own, of which GTO knows nothing."""
    tag = state.revocation(artifact, version.number)
    with _tagging(repository, tag):
        _by_git(repository, tag, version.commit, message)


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
    """Return whether a tag has a date out of range, on which every GTO call fails."""
    return any(state.EVENT.fullmatch(tag.name) and not record.datable(tag) for tag in repository.tags())


def _by_git(repository: Repository, tag: str, commit: str, message: str) -> None:
    """Make the same tag that GTO would have made."""
    repository.git("tag", "--annotate", "--cleanup=verbatim", "--message", message, tag, commit)


def wait_for_next_second(repository: Repository) -> None:
    """Wait until later than every tag: GTO and DVC sort by whole seconds, so tags of the same second have no order."""
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
    """Remove the tag's lock file if its holder is gone."""
    lock = repository.common / "refs" / "tags" / f"{tag}.lock"
    deadline = time.monotonic() + STALE_LOCK
    while lock.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    lock.unlink(missing_ok=True)
