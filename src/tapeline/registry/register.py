"""Register: the commit whose `dvc.lock` holds the model gets the tag `NAME@vX.Y.Z`."""

import json
from pathlib import Path
from typing import Any

from tapeline.errors import InputError
from tapeline.registry import lock_file, names, state, tagging
from tapeline.registry.lock_file import Recorded
from tapeline.registry.model import DESCRIPTION, described
from tapeline.registry.registry import Registry
from tapeline.registry.state import Version


def register(
    registry: Registry, name: str, *, bump: str = "patch", version: str | None = None, flow_run: str | None = None
) -> Version:
    """Tag HEAD as the next version of a model, and return it.

    bump: which of the three numbers grows; version: the very number instead. Raises `InputError`, and makes no tag,
    when HEAD is on no branch or dirty, when the outs are not those of its `dvc.lock`, or when their bytes are not in
    the cache and (where one is set) in the default remote.
    """
    names.check_name(name)
    registry.params.pipeline(name)
    if bump not in names.BUMPS:
        raise InputError(f"{bump!r} is no part of a version: give {', '.join(names.BUMPS)}")
    repository = registry.repository
    repository.identity()
    found = registry.state(name)
    wanted = names.check_version(version) if version else names.bumped(list(found.versions), bump)
    _check_version(found, wanted, repository.head)
    if repository.branch() is None:
        raise InputError(f"HEAD is detached at {repository.head[:10]}: a version is of a branch; `git switch` to one")
    if changed := repository.changed():
        more = f" (and {len(changed) - 1} more)" if len(changed) > 1 else ""
        raise InputError(f"{changed[0]} is not committed{more}: a version is a commit; commit or restore it")
    recorded = lock_file.recorded(repository, repository.head, name)
    model = recorded.model
    _check_committed(registry, recorded)
    if stale := registry.store.stale(name):
        raise InputError(f"{stale}: run `dvc repro export@{name}` and commit dvc.lock, or `dvc checkout`")
    description = _described(registry.project.model(name))
    dataset = str(description["dataset"]["name"])
    for out in (model, recorded.predictions, recorded.data(dataset)):
        _check_kept(registry, out)
    for part in registry.store.listing(model).values():
        registry.store.bring(part)
    for other in found.versions.values():
        if registry.recorded(other).model == model:
            raise InputError(f"{other.tag.name} has these very bytes: promote that one")
    record = _record(registry, recorded, description, dataset, flow_run)
    with registry.alone():
        text = state.message(f"{name} {wanted}", record)
        tagging.register(repository, found.artifact, wanted, repository.head, text)
    return registry.state(name).versions[wanted]


def _check_version(found: state.State, wanted: str, head: str) -> None:
    if wanted in found.versions:
        raise InputError(f"{found.artifact.tag}@{wanted} exists: a version is never changed; give another number")
    for name, other in found.versions.items():
        if other.commit == head:
            raise InputError(f"{head[:10]} is {other.tag.name} already: one commit is one version of a model")
        if names.order(name) > names.order(wanted):
            raise InputError(f"{wanted} is below {name}, which exists: versions grow")


def _check_committed(registry: Registry, recorded: Recorded) -> None:
    """Check that what made the model can be had again: each dependency is in the commit, or DVC's own."""
    tracked = registry.repository.tracked(registry.repository.head)
    top, folder = registry.repository.top, registry.project.folder
    for dep in recorded.code():
        path = (folder / dep).resolve()
        if not path.is_relative_to(top):
            raise InputError(f"{dep} is outside the repository, and the model depends on it")
        inside = path.relative_to(top).as_posix()
        known = inside in tracked or any(name.startswith(f"{inside}/") for name in tracked)
        if not known and f"{inside}.dvc" not in tracked and not _made_elsewhere(registry, path):
            raise InputError(f"{dep} is not committed, and the model depends on it: `git add` or `dvc add` it")


def _made_elsewhere(registry: Registry, path: Path) -> bool:
    """Return whether a committed lock of another folder of the repository has it among its outs."""
    top = registry.repository.top
    locks = [p for p in registry.repository.tracked(registry.repository.head) if p.endswith(lock_file.LOCK)]
    for lock in locks:
        folder = (top / lock).parent
        text = registry.repository.git("show", f"{registry.repository.head}:{lock}")
        if path.is_relative_to(folder) and f"path: {path.relative_to(folder).as_posix()}\n" in text:
            return True
    return False


def _check_kept(registry: Registry, md5: str) -> None:
    if registry.store.missing(md5):
        raise InputError(f"the cache has lost {md5}: `dvc fetch`, or `dvc repro --force`, brings it back")
    if registry.store.missing_in_remote(md5):
        raise InputError(f"the remote has no {md5}: nobody else could use this version; run `dvc push` first")


def _described(folder: Path) -> dict[str, Any]:
    path = folder / DESCRIPTION
    try:
        return described(path.read_bytes(), str(path))
    except FileNotFoundError:
        raise InputError(f"{path} is missing: `dvc checkout` or `tapeline export {folder.name}`") from None


def _record(
    registry: Registry, recorded: Recorded, description: dict[str, Any], dataset: str, flow_run: str | None
) -> dict[str, Any]:
    """Return what the tag says: enough to trace the version with Git alone."""
    environment = registry.repository.read(registry.repository.head, f"runs/{recorded.name}/environment.json")
    metrics = {key: value for key, value in description["metrics"].items() if isinstance(value, int | float)}
    return {
        "commit": registry.repository.head,
        "model": {"path": f"models/{recorded.name}", "md5": recorded.model},
        "files": description["files"],
        "metrics": metrics,
        "split": description.get("verdict", {}).get("split", "test"),
        "data": {**description["dataset"], "md5": recorded.data(dataset)},
        "parameters": recorded.parameters(),
        "code": recorded.code(),
        "environment": json.loads(environment) if environment else None,
        "flow_run": flow_run,
    }
