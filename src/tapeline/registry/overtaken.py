"""A version's tag that the remote refuses, since another clone has pushed one of that name: it is made anew.

overtaken.is_taken(repository, "origin", "digits@v1.2.0")
overtaken.withdraw(registry, "digits", "digits@v1.2.0", remote="origin")
"""

from tapeline.registry import fetched
from tapeline.registry.registry import Registry
from tapeline.registry.repository import Repository
from tapeline.registry.tags import seen
from tapeline.repository.git import TRANSFER, Git
from tapeline.runtime.errors import RunError


def is_taken(repository: Repository, remote: str, tag: str) -> bool:
    """Return whether a remote has a tag of this name, be it another's or the same; not if it does not say."""
    ask = ("ls-remote", "--quiet", "--tags", "--refs", remote, f"refs/tags/{tag}")
    try:
        return bool(Git(repository.main)(*ask, timeout=fetched.PATIENCE))
    except RunError:
        return False


def withdraw(registry: Registry, name: str, tag: str, *, remote: str) -> None:
    """Delete a tag that was made here and never pushed, and fetch what the remote has of the model.

    Raises `RunError`, and deletes nothing, if a later tag was made here, which may be about it; `RunError` if the
    remote does not answer.
    """
    repository = registry.repository
    with registry.alone():
        last = registry.tags(name)[-1]
        if last.name != tag:
            raise RunError(f"{last.name} was made since: {seen.way_on(repository.common, tag, remote)}")
        seen.withdraw(repository.common, last)
        repository.git("tag", "--delete", tag)
    git = Git(repository.main)
    if missing := fetched.missing(repository, remote, name):
        tags = (f"refs/tags/{one}:refs/tags/{one}" for one in missing)
        git("fetch", "--quiet", "--no-tags", remote, *tags, timeout=TRANSFER)
