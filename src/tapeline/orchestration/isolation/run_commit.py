"""Commit a finished isolated run on its own branch, without any checkout."""

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from tapeline.config.project import PARAMS
from tapeline.orchestration.isolation.finished import TRAILER, parameters
from tapeline.orchestration.isolation.worktree import Worktree
from tapeline.orchestration.request import Request
from tapeline.registry.trust import signing
from tapeline.repository import described, own_runs
from tapeline.repository.dvc_lock import LOCK
from tapeline.repository.git import Git
from tapeline.repository.recorded import Recorded
from tapeline.runtime import streams
from tapeline.runtime.errors import InputError, plain

NO_BRANCH = ""
"""Git's notation for the old value of a branch that must not exist yet, whatever the length of its ids."""


def commit_run(
    tree: Worktree,
    request: Request,
    record: Recorded,
    outputs: Iterable[Path] = (),
    *,
    ref: str,
    flow_run: Mapping[str, str],
) -> str:
    """Commit `params.yaml`, `dvc.lock` and the machine's description on the run's branch, and return the commit.

    outputs: files and folders that are committed too, but for what Git ignores. Everything else is as in the ref. The
    commit is signed if Git has a key, and noted as built here; a line says so if it cannot be. Raises `RunError` if the
    branch has been created in the meantime.
    """
    git, folder = Git(tree.project.folder), tree.project.folder
    top = git.top()
    kept = [f":(literal){os.path.relpath(path, folder)}" for path in outputs if path.is_relative_to(top)]
    changed = ("ls-files", "-z", "--modified", "--others", "--exclude-standard")
    found = [path for path in git(*changed, "--", f":(top,glob)**/{LOCK}", *kept).split("\0") if path]
    machine = described.path(request.pipeline)
    made = [PARAMS, *found, *([machine] if (folder / machine).exists() else [])]
    # DVC writes no CRLF; `core.safecrlf` would refuse that where `core.autocrlf` is set.
    git("-c", "core.safecrlf=false", "--literal-pathspecs", "add", "--force", "--", *made)
    message = _message(tree, request, record, ref, flow_run)
    commit = signing.commit(git, message, tree=git("write-tree"), parent=tree.commit)
    try:
        own_runs.note(git, commit)
    except (OSError, InputError) as error:  # the run is worth more than the note of it
        streams.say(f"tapeline: could not note that the run was built here: {plain(str(error))}", sys.stderr)
    git("update-ref", "-m", "an isolated run", f"refs/heads/{tree.branch}", commit, NO_BRANCH)
    return commit


def _message(tree: Worktree, request: Request, record: Recorded, ref: str, flow_run: Mapping[str, str]) -> str:
    """Return the commit's message. Each entry is one line: a line break in a name would begin a trailer of its own."""
    metrics = ", ".join(f"{name} {value:.6g}" for name, value in record.metrics().items())
    trailers = {
        "Flow-run": flow_run["name"],
        "Flow-run-id": flow_run["id"],
        "Pipeline": request.pipeline,
        "Ref": f"{ref} at {tree.commit}",
        "Data": record.training_data() or "none",
        "Metrics": metrics or "none",
        TRAILER: parameters(tree.project, request.pipeline),
    }
    lines = [f"{key}: {value}" for key, value in trailers.items()]
    lines += [f"Override: {name}={value!r}" for name, value in request.overrides.items()]
    return "\n".join(map(plain, [f"Run {flow_run['name']}: {request.pipeline}", "", *lines]))
