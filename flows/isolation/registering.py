"""Register what an isolated run has made, or an earlier one: the tag `NAME@vX.Y.Z` on its commit."""

import subprocess
import sys
from collections.abc import Callable

from flows.isolation.worktree import Worktree
from flows.stages.execution import environment
from tapeline.errors import InputError, RunError
from tapeline.git import Git
from tapeline.params import Params
from tapeline.registry import lock_file
from tapeline.registry.registry import Registry


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

    name: what the commit is called (`runs/brave-otter`). A commit whose model is a version already keeps its tag.
    Raises `InputError` and `RunError`; the run is committed already.
    """
    tag = _tag_of(tree, pipeline, revision)
    if tag:
        say(f"{name} is {tag} already")
    else:
        tag = _registered(tree, pipeline, name, revision, flow_run)
        say(f"registered {tag}")
    if push_to:
        Git(tree.project.folder)("push", "--quiet", push_to, f"refs/tags/{tag}")
        say(f"{tag} is on Git's remote {push_to}")
    return tag


def _tag_of(tree: Worktree, pipeline: str, revision: str) -> str | None:
    """Return the tag of the version that has the commit, or its model's very bytes."""
    registry = Registry.open(tree.project, Params.load(tree.project.folder))
    versions = list(registry.state(pipeline).versions.values())
    model = lock_file.recorded(registry.repository, revision, pipeline).model if versions else ""
    same = (v for v in versions if v.commit == revision or registry.recorded(v).model == model)
    return next((version.tag.name for version in same), None)


def _registered(tree: Worktree, pipeline: str, name: str, revision: str, flow_run: str) -> str:
    # As a command in the worktree: DVC looks for the stages of the folder that it is called in.
    answer = subprocess.run(
        [sys.executable, "-P", "-m", "tapeline", "registry", "register", pipeline, "--rev", revision],
        cwd=tree.project.folder,
        env={**environment(), "PREFECT__FLOW_RUN_ID": flow_run},
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode:
        kind = InputError if answer.returncode == InputError.status else RunError
        last = (answer.stderr.strip().splitlines() or [f"status {answer.returncode}"])[-1]
        raise kind(f"{name} is committed and not registered: {last.removeprefix('tapeline: ')}")
    return answer.stdout.split()[1]
