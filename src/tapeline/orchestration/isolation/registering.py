"""Register the model of an isolated run, or of an earlier one, with the tag `NAME@vX.Y.Z` on its commit."""

import sys
from collections.abc import Callable
from contextlib import suppress

from tapeline.orchestration.isolation.worktree import Worktree
from tapeline.orchestration.schedules.liveness import STARTED_FOR
from tapeline.orchestration.stages.child import environment
from tapeline.registry import fetched, making, overtaken
from tapeline.registry.registry import Registry
from tapeline.registry.tags import seen, tagging
from tapeline.repository.dvc.settings import Settings
from tapeline.repository.git import TRANSFER
from tapeline.repository.recorded import Recorded
from tapeline.runtime import exit_status, leash
from tapeline.runtime.errors import InputError, RunError

ATTEMPTS = 3
"""How many numbers are tried that other clones may be first to push."""


def check(tree: Worktree, pipeline: str, finished: Recorded | None, *, pushed: bool) -> None:
    """Raise `InputError` for what would refuse the version after the training; nothing does if it is one already.

    finished: an earlier run's record.
    """
    registry = Registry.for_model(tree.project, pipeline)
    if finished and registry.version_of(pipeline, commit_of(tree, finished.name)):
        return
    tagging.check_artifact(registry.repository, registry.artifact(pipeline))
    registry.repository.check_identity()
    making.own(registry, "register")
    fetched.check(registry.repository, pipeline)
    storage = Settings.around(tree.project.folder).default_remote
    if storage and not pushed and not (finished and not registry.store.missing_in_remote(finished.model)):
        raise InputError(
            f"a version's model must be on DVC's remote {storage}, so that others can use it: push the run too (--push)"
        )


def commit_of(tree: Worktree, name: str) -> str:
    """Return the commit of a run by its branch; the worktree's for the ref's own record, called `main at 8607dbd`."""
    with suppress(InputError):
        return tree.checkout.commit_of(name)
    return tree.commit


def register_run(
    tree: Worktree,
    pipeline: str,
    name: str,
    revision: str,
    *,
    flow_run: str,
    push_to: str | None,
    say: Callable[[str], None],
) -> str:
    """Tag a commit as the next version, push the tag where `push_to` is a remote, and return the tag.

    name: the commit's name in messages (`runs/brave-otter`). A commit whose model is already a version keeps its tag.
    If another clone was first to push the same number, the next one is taken. Raises `InputError` and `RunError`; the
    run is already committed.
    """
    for left in reversed(range(ATTEMPTS)):
        registry = Registry.for_model(tree.project, pipeline)
        known = registry.version_of(pipeline, revision)
        tag = known.tag.name if known else _registered(tree, pipeline, name, revision, flow_run)
        say(f"{name} is already {tag}" if known else f"registered {tag}")
        if not push_to:
            break
        try:
            tree.checkout("push", "--quiet", push_to, f"refs/tags/{tag}", timeout=TRANSFER)
        except RunError as error:
            if not overtaken.is_taken(registry.repository, push_to, tag):
                raise
            if known:
                raise RunError(seen.way_on(registry.repository.common, tag, push_to)) from None
            overtaken.withdraw(registry, pipeline, tag, remote=push_to)
            said = f"{push_to} has another {tag}, so this one was deleted"
            if not left:
                raise RunError(f"{said}: run again") from error
            say(said)
        else:
            say(f"pushed {tag} to Git's remote {push_to}")
            break
    return tag


def _registered(tree: Worktree, pipeline: str, name: str, revision: str, flow_run: str) -> str:
    # A command in the worktree, because DVC finds stages relative to the working directory.
    answer = leash.text(
        [sys.executable, "-P", "-m", "tapeline", "registry", "register", pipeline, "--rev", revision],
        cwd=tree.project.folder,
        env={**environment(), STARTED_FOR: flow_run},
    )
    if answer.returncode:
        error = exit_status.error(answer.returncode, answer.stderr.splitlines())
        raise type(error)(f"{name} is committed but not registered: {error}")
    return answer.stdout.split()[1]
