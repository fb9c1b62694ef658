"""Register the model of an isolated run, or of an earlier one, with the tag `NAME@vX.Y.Z` on its commit."""

import sys
from collections.abc import Callable

from tapeline.orchestration.isolation.worktree import Worktree
from tapeline.orchestration.schedules.liveness import STARTED_FOR
from tapeline.orchestration.stages.child import environment
from tapeline.registry.registry import Registry
from tapeline.runtime import exit_status, leash


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
