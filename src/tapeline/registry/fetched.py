"""Whether this clone has the remote's tags: a shallow one gets those of its own commits alone, and says nothing.

fetched.check(repository, "digits")
fetched.lacking(repository)     # of all models of the project; empty if there is nothing to say
"""

import sys

from tapeline.registry.repository import Repository
from tapeline.registry.tags import names
from tapeline.repository.git import Git
from tapeline.runtime import streams
from tapeline.runtime.errors import InputError, RunError, plain

PATIENCE = 60.0
"""Seconds in which a remote must say which tags it has."""
WHOLE = ("refs/heads/*:", "refs/*:")
"""How what a clone fetches begins if it has all branches, and so the commits of all tags."""


def check(repository: Repository, name: str = "") -> None:
    """Raise `InputError` for what `lacking` says: a missing tag may be what is live, or have the next number."""
    if said := lacking(repository, name):
        raise InputError(said)


def tell(repository: Repository, name: str = "") -> None:
    """Print what `lacking` says on stderr."""
    if said := lacking(repository, name):
        streams.say(f"tapeline: {plain(said)}", sys.stderr)


def lacking(repository: Repository, name: str = "") -> str:
    """Return which tags of a model, or of all the project's, only the remote has; empty if none, or that is unknown.

    A remote is asked in a clone alone that does not get each tag with `git fetch`; others are as of their last one.
    """
    git, told = repository.git, ""
    remotes = [one for one in dict.fromkeys(("origin", git.remote())) if one in git.lines("remote")]
    if not remotes and is_shallow(git):
        told = "this clone is shallow and has no remote that knows all tags: clone again"
    for remote in remotes:
        told = told or _lacking(repository, remote, name)
    return told


def _lacking(repository: Repository, remote: str, name: str) -> str:
    """Return which tags only one remote has."""
    if not (why := _part(repository.git, remote)):
        return ""
    then = f"run `git fetch --tags {remote}`"
    try:
        found = missing(repository, remote, name)
    except RunError as error:
        of = name or "the models"
        return f"this clone {why}, and may lack tags of {of}, which {remote} does not say: {error}; {then}, and again"
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return f"this clone {why}, and lacks {remote}'s tag {found[-1]}{more}: {then}" if found else ""


def missing(repository: Repository, remote: str, name: str = "") -> list[str]:
    """Return a remote's tags of a model, or of all the project's, that are not here. Raises `RunError`."""
    git = Git(repository.main)  # where the path of a remote such as `../origin` leads
    said = git("ls-remote", "--quiet", "--tags", "--refs", remote, timeout=PATIENCE)
    here = set(repository.tag_names())
    there = (row.partition("\trefs/tags/")[2] for row in said.split("\n"))
    return [tag for tag in there if tag not in here and _is_about(repository, tag, name)]


def is_shallow(git: Git) -> bool:
    """Return whether a clone lacks the older commits."""
    return git("rev-parse", "--is-shallow-repository") == "true"


def _part(git: Git, remote: str) -> str:
    """Return why a clone does not get each tag that `git fetch` could bring; empty if it does."""
    if is_shallow(git):
        return "is shallow"
    if git.ask("config", f"remote.{remote}.tagOpt") == "--no-tags":
        return f"fetches no tags (remote.{remote}.tagOpt)"
    fetched = git.ask("config", "--get-all", f"remote.{remote}.fetch")  # None of what is only pushed to
    whole = fetched is None or any(one.removeprefix("+").startswith(WHOLE) for one in fetched.split("\n"))
    return "" if whole else "has not all branches"


def _is_about(repository: Repository, tag: str, name: str) -> bool:
    folder, _, model = (names.artifact_of(tag) or "").rpartition("=")
    return folder == repository.inside and (model == name if name else names.is_model(model))
