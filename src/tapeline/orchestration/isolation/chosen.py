"""Which commit an isolated run trains, and how it differs from the checkout."""

from tapeline.repository.git import Git
from tapeline.runtime.errors import InputError


def description(git: Git, commit: str, *, ref: str, asked: bool) -> str:
    """Return a sentence that names the commit; if nobody asked for it, also what it lacks of the checkout.

    ref: the name by which the commit was found.
    """
    said = f"trains {commit[:10]}" if ref == commit else f"trains {ref} at {commit[:10]}"
    if asked:
        return said
    head, branch = git.ask("rev-parse", "HEAD"), git.ask("symbolic-ref", "--quiet", "--short", "HEAD")
    if head not in (None, commit):
        said += f"; you are on {branch or head}: `--ref HEAD` trains that"
    status = git.ask("status", "--porcelain", "--untracked-files=no", "--", ".")
    changes = len(status.split("\n")) if status else 0
    if changes:
        said += f"; {changes} uncommitted change{'s' * (changes > 1)} of yours not included"
    return said


def ref_for(git: Git, commit: str, *, ref: str) -> str:
    """Return the `--ref` with which a run trains this commit now; empty if none is needed.

    ref: the name that was asked for, which is kept if it still names that commit.
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
