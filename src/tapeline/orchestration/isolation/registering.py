"""Register the model of an isolated run, or of an earlier one, with the tag `NAME@vX.Y.Z` on its commit."""

import sys
from collections.abc import Callable

from tapeline.config.project import Project
from tapeline.orchestration.isolation.worktree import Worktree
from tapeline.orchestration.schedules.liveness import STARTED_FOR
from tapeline.orchestration.stages.child import environment
from tapeline.registry.registry import Registry
from tapeline.repository.dvc.settings import Settings
from tapeline.repository.recorded import Recorded
from tapeline.runtime import exit_status, leash
from tapeline.runtime.errors import InputError


def check(project: Project, pipeline: str, finished: Recorded | None, *, pushed: bool) -> None:
    """Raise `InputError` for what would refuse the version after the training. finished: an earlier run's record."""
    registry = Registry.for_model(project, pipeline)
    registry.repository.identity()
    storage = Settings.around(project.folder).default_remote
    if storage and not pushed and not (finished and not registry.store.missing_in_remote(finished.model)):
        raise InputError(
            f"a version's model must be on DVC's remote {storage}, so that others can use it: push the run too (--push)"
        )


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
    Raises `InputError` and `RunError`; the run is already committed.
    """
    known = Registry.for_model(tree.project, pipeline).version_of(pipeline, revision)
    if known:
        tag = known.tag.name
        say(f"{name} is already {tag}")
    else:
        tag = _registered(tree, pipeline, name, revision, flow_run)
        say(f"registered {tag}")
    if push_to:
        tree.checkout("push", "--quiet", push_to, f"refs/tags/{tag}")
        say(f"pushed {tag} to Git's remote {push_to}")
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
