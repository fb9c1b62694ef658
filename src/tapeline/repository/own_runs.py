"""Which runs were built here: the ids of their commits, in Git's own folder, where no fetch and no checkout writes.

own_runs.note(git, commit)
commit in own_runs.noted(git)

A branch says nothing about where it was built: anybody may push one. The id of a commit covers all that is in it.
"""

from tapeline.repository import notes
from tapeline.repository.git import Git

NAME = "runs"


def note(git: Git, commit: str) -> None:
    """Remember a commit as built here."""
    notes.append(git.common(), NAME, commit)


def noted(git: Git) -> frozenset[str]:
    """Return the commits that were built here; none, and a line that says so, if others could have written the list."""
    return frozenset(word for line in notes.lines(git.common(), NAME) for word in line.split())
