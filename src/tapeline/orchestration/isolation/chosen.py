"""Which commit an isolated run is made from, and how far that is from what a person sees in the checkout."""

from tapeline.repository.git import Git
from tapeline.runtime.errors import InputError


def told(git: Git, commit: str, *, ref: str, asked: bool) -> str:
    """Return a sentence that names the commit; if nobody asked for it, also what in the checkout it does not have.

    ref: the name by which the commit was found.
    """
    said = f"trains {commit[:10]}" if ref == commit else f"trains {ref} at {commit[:10]}"
    if asked:
        return said
    head, branch = git.ask("rev-parse", "HEAD"), git.ask("symbolic-ref", "--quiet", "--short", "HEAD")
    if head not in (None, commit):
        said += f"; you are on {branch or head}, which `--ref HEAD` trains"
    status = git.ask("status", "--porcelain", "--untracked-files=no", "--", ".")
    changes = len(status.split("\n")) if status else 0
    if changes:
        said += f"; {changes} uncommitted change{'s' * (changes > 1)} of yours left out"
    return said


def named(git: Git, commit: str, *, ref: str) -> str:
    """Return what `--ref` must be so that a run trains this commit now; empty if it does so without.

    ref: what it was asked for by, which is kept where it still is that commit.
    """
    try:
        if git.commit_of(git.main_branch()) == commit:
            return ""
    except InputError:  # there is no main branch
        pass
    try:
        return ref if ref and git.commit_of(ref) == commit else commit
    except InputError:  # it is gone by now
        return commit
