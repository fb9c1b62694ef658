"""Register a model: tag the commit whose `dvc.lock` records it with `NAME@vX.Y.Z`."""

import posixpath
from itertools import islice
from pathlib import Path
from typing import Any

from tapeline.config import engine_lock
from tapeline.config.project import PARAMS
from tapeline.parsing import json_text, yaml_text
from tapeline.registry import contents, fetched, inputs, making
from tapeline.registry.model import Model
from tapeline.registry.ours import Ours
from tapeline.registry.registry import Registry
from tapeline.registry.tags import names, tagging
from tapeline.registry.tags.record import message
from tapeline.registry.tags.state import State, Version
from tapeline.repository import described
from tapeline.repository.dvc_lock import LOCK
from tapeline.repository.recorded import Recorded
from tapeline.runtime.errors import InputError


def register(
    registry: Registry,
    name: str,
    *,
    bump: str = "patch",
    version: str | None = None,
    revision: str | None = None,
    flow_run: str | None = None,
) -> Version:
    """Tag a commit as the next version of a model, and return it.

    bump: which of the three numbers to increment; version: an explicit number instead. revision: a commit that need
    not be checked out, such as the branch of an isolated run; else HEAD. Raises `InputError`, and makes no tag, if HEAD
    is detached or dirty, if no tag can have the folder's name, if outputs or code differ from the commit's `dvc.lock`,
    if the commit lacks the artifact or the machine's description, if the bytes are not in the cache and (where one is
    set) in the default remote, or if tags are missing, as in a shallow clone.
    """
    names.check_name(name)
    registry.params.pipeline(name)
    repository = registry.repository
    tagging.check_artifact(repository, registry.artifact(name))
    repository.check_identity()
    making.own(registry, "register")
    commit = repository.git.commit_of(revision) if revision else repository.head
    if revision:
        _check_one_meaning(registry, revision)
        _check_ours(registry, name, revision, commit)
    fetched.check(repository, name)
    found = registry.state(name)
    wanted = names.check_version(version) if version else _next(registry, found, bump)
    _check_version(registry, found, wanted, commit)
    recorded = _checked(registry, commit, name, is_head=revision is None)
    environment = _environment(registry, commit, name)
    model = Model.at(registry.store, recorded.model, f"models/{name} of {commit[:10]}")
    for out in (recorded.model, recorded.predictions, recorded.data(model.dataset)):
        _check_kept(registry, out)
    if same := registry.version_of(name, commit):
        revoked = registry.state(name).revoked.get(same.number)
        raise InputError(
            f"{same.tag.name} has exactly these bytes{f' and is {revoked}' if revoked else ': promote that one'}"
        )
    return _tagged(registry, wanted, commit, _record(registry, commit, recorded, model, environment, flow_run))


def _next(registry: Registry, found: State, bump: str) -> str:
    """Return the next number; by a policy the next after those that count, and that no tag keeps from being one."""
    numbers = found.numbers
    if registry.authority:
        usable = (one.number for one in reversed(found.versions.values()) if registry.is_usable(one))
        numbers = list(islice(usable, 1))
    while True:
        wanted = names.bumped(numbers, bump)
        tag = f"{found.artifact.tag}@{wanted}"
        if not (registry.authority and tagging.in_the_way(registry.repository, tag).startswith(tag)):
            return wanted
        numbers = [*numbers, wanted]


def _tagged(registry: Registry, wanted: str, commit: str, record: dict[str, Any]) -> Version:
    """Make the version's tag, unless another process was first."""
    name = Path(record["model"]["path"]).name
    with registry.alone():
        found = registry.state(name)
        _check_version(registry, found, wanted, commit)
        text = message(f"{name} {wanted}", {**record, "before": making.latest(registry, name)})
        tag = f"{found.artifact.tag}@{wanted}"
        tagging.make(registry.repository, tag, commit, text, counts=making.counts(registry))
        made = registry.made(name, tag).versions[wanted]
        registry.tell_unverified()
        return made


def _check_one_meaning(registry: Registry, revision: str) -> None:
    """Check that no tag has a branch's name: Git would take the tag, and anybody may push one."""
    kinds = [kind for kind in ("heads", "remotes", "tags") if registry.repository.git.has(f"refs/{kind}/{revision}")]
    if len(kinds) > 1 and "tags" in kinds:
        raise InputError(f"{revision} is a branch and a tag: give refs/{kinds[0]}/{revision}, or delete the tag")


def _check_ours(registry: Registry, name: str, revision: str, commit: str) -> None:
    """Check that a commit is ours: a branch of a run may have come with a fetch, and anybody may push one."""
    ours = Ours(registry.project.folder, name)
    if not ours.merged(commit) and (why := ours.why_not(commit)):
        way = "merge it to make it yours, or register it where it was built"
        raise InputError(f"{revision} is not registered: {why}; {way}")


def _checked(registry: Registry, commit: str, name: str, *, is_head: bool) -> Recorded:
    """Return what a commit records of a model, after checking that the commit and the cache have all of it."""
    repository = registry.repository
    if is_head:
        _check_branch(registry, name)
    recorded = repository.recorded(commit, name)
    if is_head:
        _check_tree(registry, recorded)
    _check_artifact(registry, commit, name)
    inputs.check(registry, commit, recorded)
    if lost := registry.store.missing(recorded.model):
        raise InputError(f"the cache has lost {lost[0]}: `dvc fetch`, or `dvc repro --force`, brings it back")
    here = registry.project.model(name).exists()  # not in the worktree of a run that found its result
    checked_out = is_head or (commit == repository.head and here and not repository.changed())
    if checked_out and (stale := registry.store.stale(name)):
        raise InputError(f"{stale}: run `dvc repro export@{name}` and commit dvc.lock, or `dvc checkout`")
    return recorded


def _check_branch(registry: Registry, name: str) -> None:
    repository = registry.repository
    if repository.branch() is None:
        raise InputError(
            f"HEAD is detached at {repository.head[:10]}: a version belongs to a branch; `git switch` to one, or name "
            f"the commit: `tapeline registry register {name} --rev HEAD`"
        )


def _check_tree(registry: Registry, recorded: Recorded) -> None:
    """Check that the model's dependencies, and the files that record them, are committed; nothing else need be."""
    repository, folder = registry.repository, registry.project.folder
    said = (PARAMS, "dvc.yaml", LOCK, engine_lock.LOCK, ".dvcignore", described.path(recorded.pipeline))
    concerned = [(folder / path).resolve() for path in (*said, *recorded.code())]
    beside = [inputs.located(folder, dep) for dep in recorded.code()]
    concerned += [file for path in beside for file in inputs.dvc_files(path, repository.top)]
    changed = [
        path
        for path in repository.changed()
        if any((repository.top / path).resolve().is_relative_to(one) for one in concerned)
    ]
    if changed:
        more = f" (and {len(changed) - 1} more)" if len(changed) > 1 else ""
        raise InputError(f"{changed[0]} is not committed{more}: a version is a commit; commit or restore it")


def _check_version(registry: Registry, found: State, wanted: str, head: str) -> None:
    """Raise `InputError` for a number or a commit that is a version already; by a policy, one that counts."""
    if wanted in found.versions:
        raise InputError(f"{found.artifact.tag}@{wanted} exists already: a version never changes; give another number")
    for name, other in found.versions.items():
        is_head, is_above = other.commit == head, names.order(name) > names.order(wanted)
        if not (is_head or is_above) or not registry.is_usable(other):
            continue
        if is_head:
            raise InputError(f"{head[:10]} is already {other.tag.name}: a commit can be only one version of a model")
        raise InputError(f"{wanted} is below {name}, which exists: give a higher number")


def _check_kept(registry: Registry, md5: str) -> None:
    if registry.store.missing(md5):
        raise InputError(f"the cache has lost {md5}: `dvc fetch`, or `dvc repro --force`, brings it back")
    if registry.store.missing_in_remote(md5):
        raise InputError(
            f"the DVC remote does not have {md5}, so nobody else could use this version: run `dvc push` first"
        )


def _check_artifact(registry: Registry, commit: str, name: str) -> None:
    """Check that GTO and DVC can find the model: `dvc artifacts get` reads the commit's `dvc.yaml`."""
    text = registry.repository.read(commit, "dvc.yaml") or ""
    try:
        path = posixpath.normpath(yaml_text.parsed(text)["artifacts"][name]["path"])
    except (yaml_text.NotYaml, KeyError, TypeError, IndexError):
        path = None
    if path != f"models/{name}":
        raise InputError(
            f"dvc.yaml of {commit[:10]} has no artifact {name}: add `artifacts: {{{name}: {{path: models/{name}}}}}`"
        )


def _environment(registry: Registry, commit: str, name: str) -> dict[str, Any]:
    """Return the machine and the libraries with which the model was made."""
    path = described.path(name)
    text = registry.repository.read(commit, path)
    if text is None:
        is_here = (registry.project.folder / path).exists()
        remedy = "`git add` it, and commit" if is_here else f"`dvc repro -f -s train@{name}` trains again and writes it"
        raise InputError(f"{path} is not in {commit[:10]}, so nobody could say where the model was made: {remedy}")
    inputs.check_not_in_lfs(registry, commit, [f"{registry.repository.inside}/{path}".removeprefix("/")])
    try:
        return json_text.mapping(text)
    except json_text.NotJson:
        raise InputError(
            f"{path} of {commit[:10]} was truncated or altered: `tapeline train {name}` writes it again"
        ) from None


def _record(
    registry: Registry, commit: str, recorded: Recorded, model: Model, environment: dict[str, Any], flow_run: str | None
) -> dict[str, Any]:
    """Return the tag's record: enough to trace the version with Git alone."""
    return {
        "commit": commit,
        "model": {"path": f"models/{recorded.pipeline}", "md5": recorded.model},
        "sha256": contents.of_recorded(registry.store, recorded),
        "files": model.content["files"],
        "metrics": model.metrics,
        "split": model.split,
        "data": {**model.content["dataset"], "md5": recorded.data(model.dataset)},
        "parameters": recorded.parameters(),
        "code": recorded.code(),
        "engine": recorded.engine(),
        "environment": environment,
        "run": registry.repository.run(commit, LOCK, recorded.model),
        "registered_by_flow_run": flow_run,
    }
