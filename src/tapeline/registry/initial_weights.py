"""Find the weights that `train.init_from` names: a folder of this project, or a registered model's."""

import hashlib
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from tapeline.config.params import Params
from tapeline.config.project import Project
from tapeline.dataset.columns import INDEX
from tapeline.parsing import json_text
from tapeline.repository.dvc_lock import LOCK
from tapeline.repository.recorded import Recorded
from tapeline.runtime import files, own_modules
from tapeline.runtime.errors import InputError, RunError

REGISTERED = re.compile(r"(?:(?P<folder>[\w./-]+)=)?(?P<name>[a-z0-9-]+)@v[0-9]+\.[0-9]+\.[0-9]+")
"""GTO's tag of a version; an artifact below the repository's root has its folder as a prefix."""


UNKNOWN = (InputError, RunError, OSError, ValueError, LookupError, TypeError, AttributeError)
"""What reading the data of weights raises if nothing says what it is."""


def initial_weights(project: Project, source: str) -> Path:
    """Return the folder with the weights, fetched from DVC's cache or remote for a registered model.

    Raises `InputError` for a folder or a tag that does not exist.
    """
    if match := REGISTERED.fullmatch(source):
        return _registered(project, source, match["folder"] or "", match["name"])
    folder = project.folder / source
    if not folder.is_dir():
        raise InputError(
            f"train.init_from is {source!r}: neither a folder such as runs/NAME/train/weights nor a version NAME@v1.0.0"
        )
    return folder


def check_compared(project: Project, source: str, compared: Collection[Path]) -> None:
    """Raise `InputError` for a folder of the repository whose changes DVC would not see; note one of elsewhere.

    compared: the files and folders that DVC compares for the training. A version never changes.
    """
    folder = (project.folder / source).resolve()
    if REGISTERED.fullmatch(source) or any(folder.is_relative_to(path.resolve()) for path in compared):
        return
    if not folder.is_relative_to(own_modules.tree_of(project.folder) or project.folder):
        own_modules.note_outside(f"train.init_from is {source}")
        return
    raise InputError(
        f"train.init_from is {source!r}, whose changes DVC would not see: set `needs: {os.path.normpath(source)}` for "
        "the pipeline, or a folder that holds it and what else the recipe needs; or register its pipeline and name the "
        "version, such as NAME@v1.0.0, which needs no `needs`"
    )


def _registered(project: Project, tag: str, folder: str, name: str) -> Path:
    """Fetch the weights that the tag's `dvc.lock` records, with their bytes checked."""
    from tapeline.registry.store import Store

    try:
        recorded = _tagged(project, tag, folder, name)
        weights = recorded.out(f"train@{name}", f"runs/{name}/train/weights")
        if not weights.endswith(".dir"):
            raise InputError(f"runs/{name}/train/weights is a single file there, not a folder that Tapeline wrote")
        sums = _registered_sums(project, tag, folder, name, recorded)
        copy = project.local / "init_from" / weights.removesuffix(".dir")
        return Store(project.folder).kept(weights, copy, sums=sums)
    except InputError as error:
        raise InputError(f"train.init_from is {tag!r}: {error}") from None


def _registered_sums(
    project: Project, tag: str, folder: str, name: str, recorded: Recorded
) -> Mapping[str, str] | None:
    """Return the SHA-256 of the weights' files, by the tag; None if it has none, or is no annotated tag.

    Raises `InputError` for a version that may not be used, for a tag that contradicts its commit, and, by a trust
    policy, for weights without SHA-256.
    """
    from tapeline.registry import contents
    from tapeline.registry.registry import Registry
    from tapeline.registry.repository import Repository

    here = Registry.open(project, Params.load_for(project.folder))
    registry = replace(here, repository=Repository(project.folder, inside=folder))
    number = tag.rpartition("@")[2]
    registry.check_not_revoked(name, number)
    sums = None
    if version := registry.state(name).versions.get(number):
        version = registry.trusted(version)
        contents.of_model(version, recorded)
        sums = contents.sums(version, contents.WEIGHTS)
    if registry.authority and sums is None:
        raise InputError("no signed record has the SHA-256 of its weights: `tapeline registry vouch` signs them")
    return sums


def _tagged(project: Project, tag: str, folder: str, name: str) -> Recorded:
    from tapeline.registry.repository import Repository

    repository = Repository(project.folder, inside=folder)
    if tag not in repository.tag_names():
        raise InputError("there is no such tag; `git tag` lists the existing ones")
    return repository.recorded(repository.git.commit_of(f"refs/tags/{tag}"), name)


def initial_classes(project: Project, source: str, weights: Path) -> dict[str, tuple[str, ...]] | None:
    """Return label → class names of the data that the weights were trained on; None if that data is unknown.

    weights: the result of `initial_weights`. Weights store no class names. For a folder, `run.json` next to it has the
    SHA-256 of the data's index; for a version, the commit's lock has the data's MD5.
    """
    try:
        features = _trained_on(project, source, weights)["features"]
        return {name: tuple(kind["classes"]) for name, kind in features.items() if kind.get("classes")}
    except UNKNOWN:
        return None


def moved_columns(project: Project, source: str, weights: Path, columns: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Yield a line for each feature that was made of other table columns, or in another order, for these weights.

    weights: the result of `initial_weights`. columns: feature → its table columns now. Nothing for unknown data.
    """
    with suppress(*UNKNOWN):
        then = _trained_on(project, source, weights)["source"].get("columns", {})
        for name in sorted(columns.keys() & then.keys()):
            if list(columns[name]) != list(then[name]):
                yield (
                    f"{name} is made of other table columns than in the data of {source}, or in another order: weights "
                    "are taken by position"
                )


def _trained_on(project: Project, source: str, weights: Path) -> Mapping[str, Any]:
    """Return the index of the data that weights were trained on. Raises one of `UNKNOWN`."""
    if match := REGISTERED.fullmatch(source):
        return json_text.mapping(_index(project.folder, _tagged(project, source, match["folder"] or "", match["name"])))
    return json_text.mapping(_index_beside(weights) or b"{}")


def _index_beside(weights: Path) -> bytes | None:
    """Return the index whose SHA-256 is in the `run.json` next to the weights: from `data/`, else from that lock."""
    folder = weights.resolve().parents[2].parent  # of `runs/NAME/train/weights`
    wanted = json_text.mapping(files.read_bytes(weights.parent / "run.json"))["data"]
    for path in sorted(folder.glob(f"data/*/{INDEX}")):
        if files.sha256(path) == wanted:
            return files.read_bytes(path)
    pipeline = weights.resolve().parents[1].name
    index = _index(folder, Recorded.read(files.read_bytes(folder / LOCK), pipeline, name=str(folder)))
    return index if hashlib.sha256(index).hexdigest() == wanted else None


def _index(folder: Path, recorded: Recorded) -> bytes:
    """Return the index of the dataset that the weights were trained on, according to a lock."""
    from tapeline.registry.store import Store

    store = Store(folder)
    listing = store.listing(recorded.trained_on(str(recorded.dataset)))
    return store.bring(listing[INDEX]).read_bytes()
