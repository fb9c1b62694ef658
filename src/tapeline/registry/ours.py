"""Whose commit it is: built here, signed by one who may register, or on a branch that the user made it part of."""

from functools import cached_property
from pathlib import Path

from tapeline.config.project import RUN_BRANCHES
from tapeline.registry.authority import Authority
from tapeline.registry.repository import Repository
from tapeline.registry.trust.signed import Untrusted
from tapeline.repository import own_runs


class Ours:
    """Tells the commits of a repository apart; the policy is read when it is first needed."""

    def __init__(self, folder: Path, pipeline: str) -> None:
        self._folder, self._pipeline = folder, pipeline

    def why_not(self, commit: str) -> str:
        """Return why a run's commit does not count as ours; empty if it was built here or is signed by the policy.

        Raises `InputError` for a policy that cannot be read.
        """
        _, authority, noted = self._opened
        if commit in noted:
            return ""
        if authority is None:
            return "it was not built here, and no trust policy says whose signature counts"
        try:
            authority.commit_signer(commit)
        except Untrusted as why:
            return f"it was not built here, and by the policy of {authority.policy.name}, {why}"
        return ""

    def merged(self, commit: str) -> bool:
        """Return whether a commit is part of HEAD, or of a local branch that is none of a run."""
        repository, _, _ = self._opened
        if repository.git.ask("merge-base", "--is-ancestor", commit, repository.head) is not None:
            return True
        branches = repository.git.lines("for-each-ref", "--format=%(refname)", f"--contains={commit}", "refs/heads")
        return any(not name.startswith(f"refs/heads/{RUN_BRANCHES}") for name in branches)

    @cached_property
    def _opened(self) -> tuple[Repository, Authority | None, frozenset[str]]:
        repository = Repository(self._folder)
        return repository, Authority.of(repository, self._pipeline), own_runs.noted(repository.git)
