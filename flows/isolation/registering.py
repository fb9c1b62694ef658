"""Register what an isolated run has made, in its worktree: the tag `NAME@vX.Y.Z` on the run's commit."""

import subprocess
import sys
from collections.abc import Callable

from flows.isolation.worktree import Worktree
from flows.stages.execution import environment
from tapeline.errors import InputError, RunError
from tapeline.git import Git


def register_run(
    tree: Worktree, pipeline: str, *, flow_run: str, push_to: str | None, say: Callable[[str], None]
) -> str:
    """Tag the run's commit as the next version, push the tag where `push_to` is a remote, and return the tag.

    Raises `InputError` and `RunError`; the run is committed already.
    """
    git = Git(tree.project.folder)
    git("symbolic-ref", "HEAD", f"refs/heads/{tree.branch}")  # a version is of a branch; files and index are its own
    try:
        # As a command in the worktree: DVC looks for the stages of the folder that it is called in.
        answer = subprocess.run(
            [sys.executable, "-P", "-m", "tapeline", "registry", "register", pipeline],
            cwd=tree.project.folder,
            env={**environment(), "PREFECT__FLOW_RUN_ID": flow_run},
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        git("update-ref", "--no-deref", "HEAD", tree.commit)
    if answer.returncode:
        kind = InputError if answer.returncode == InputError.status else RunError
        last = (answer.stderr.strip().splitlines() or [f"status {answer.returncode}"])[-1]
        raise kind(f"{tree.branch} is committed and not registered: {last.removeprefix('tapeline: ')}")
    tag = answer.stdout.split()[1]
    say(f"registered {tag}")
    if push_to:
        git("push", "--quiet", push_to, f"refs/tags/{tag}")
        say(f"{tag} is on Git's remote {push_to}")
    return tag
