"""Rebuild HEAD in a temporary clone, from scratch, and compare every output with what `dvc.lock` records.

Where bits are not portable, results depend on the CPU: a rebuild that differs from the record of another machine type
is compared with a second one. That says whether the result repeats here, and nothing of the record.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tapeline.config.project import DVC_YAML, PARAMS, Project
from tapeline.config.train import TrainSettings
from tapeline.parsing import dotted_key, yaml_text
from tapeline.repository import raw_data, submodules
from tapeline.repository.dvc_errors import in_one_line
from tapeline.repository.dvc_lock import LOCK, Lock
from tapeline.repository.git import Git
from tapeline.repository.machines import compare, recorded_machine
from tapeline.repository.rebuilding import Cached, Out, clone, dvc, first_difference, locked
from tapeline.runtime import scratch
from tapeline.runtime.environment import PORTABLE, has_portable_bits, machine
from tapeline.runtime.errors import InputError, RunError
from tapeline.runtime.files import canonical_json, sha256_of_tree
from tapeline.runtime.streams import Say

if TYPE_CHECKING:
    from tapeline.repository.dvc.settings import Settings
    from tapeline.repository.dvc.stage import Stage


def verify(project: Project, targets: Iterable[str], *, say: Say) -> bool:
    """Return whether a rebuild of `targets` at HEAD has the recorded bytes; `say` gets the table.

    The project is not touched. Raises `InputError` without a target, and for one that HEAD does not record, or records
    with other parameters; `RunError` without a commit, if Git cannot read what it has, and if a stage fails.
    """
    git = Git(project.folder)
    head = git("rev-parse", "--short", "HEAD")
    if git("status", "--porcelain", "--untracked-files=no"):
        say(f"verifying {head}, without uncommitted changes")
    content, parameters = (git.blob("HEAD", f"./{name}") for name in (LOCK, PARAMS))
    if not (targets := list(targets)):
        _parameters_of(parameters)
        raise InputError("every pipeline needs a network: name those to verify")
    lock = Lock.read(content or b"", of=head)
    if missing := [target for target in targets if target not in lock.stages]:
        missed = " ".join(missing)
        raise InputError(f"{LOCK} at {head} does not record {missed}: run `dvc repro {missed}` and commit {LOCK}")
    if wrong := stale(lock, _parameters_of(parameters), targets):
        raise InputError(f"{LOCK} at {head} is stale: {wrong}; run `dvc repro {' '.join(targets)}` and commit {LOCK}")
    with scratch.folder("verify") as made:
        first, stages = _rebuild(project, made / "first", targets, say)
        recorded, one = locked(project.folder, content, stages), locked(first, None, stages)
        if _compared(recorded, one, Cached(project.folder), first, ("recorded", "rebuilt"), say):
            say(f"SHA-256 of all outputs: {_sha256(first, one)}")
            return True
        other, unsaid = _other_machines(project.folder, stages)
        if not other:
            if unsaid:
                say(
                    f"{unsaid}: the last bits differ between machine types; `dvc repro --force` records this machine's "
                    "results"
                )
            return False
        if has_portable_bits() and _promises_portable_bits(_parameters_of(parameters), stages):
            say(f"by its record, recorded on {other}; bits are portable, so they must be the same on this machine")
            return False
        say(f"recorded on {other}: comparing two rebuilds with each other, which says nothing about the record")
        second, _ = _rebuild(project, made / "second", targets, say)
        two = locked(second, None, stages)
        return _compared(one, two, lambda out: first / out.path, second, ("first rebuild", "second"), say)


def stale(lock: Lock, parameters: Mapping[str, Any], targets: Iterable[str]) -> str:
    """Return which stage `dvc.lock` records with parameters that differ from `params.yaml`; empty if none."""
    pipelines = {target.partition("@")[2] for target in targets}
    entries = parameters.get("pipelines", {})
    datasets = {entries[name].get("dataset") for name in pipelines if name in entries}
    for stage, recorded in lock.stages.items():
        kind, _, name = stage.partition("@")
        if name not in (datasets if kind == "ingest" else pipelines):
            continue
        for key, value in recorded.read_from(PARAMS).items():
            found = next(dotted_key.at(parameters, key), None)
            if found != value:
                return f"{stage} was recorded with {key} {json.dumps(value)}, and {PARAMS} has {json.dumps(found)}"
    return ""


def _parameters_of(text: bytes | None) -> dict[str, Any]:
    """Return the content of a commit's `params.yaml`. Raises `InputError` if it is invalid, or has no pipelines."""
    try:
        found = yaml_text.parsed(text or "{}")
        pipelines = found.get("pipelines", {}) if isinstance(found, dict) else None
    except yaml_text.NotYaml as error:
        raise InputError(f"{PARAMS} of HEAD{error.where}: not YAML: {error}") from None
    is_mapping = isinstance(pipelines, dict) and all(isinstance(entry, dict) for entry in pipelines.values())
    if not (pipelines and is_mapping):
        raise InputError(f"{PARAMS} of HEAD has no pipelines: commit some")
    return dict(found)


def _rebuild(project: Project, into: Path, targets: list[str], say: Say) -> tuple[Path, set[str]]:
    """Clone HEAD and run there what the targets go through, with an empty cache.

    Returns the project's folder in the clone, and the names of the stages of its `dvc.yaml` that were run.
    """
    from tapeline.repository.dvc.repository import Dvc
    from tapeline.repository.dvc.settings import Settings

    folder = clone(project, into)
    for _, _, name in (target.partition("@") for target in targets):
        submodules.check(folder, name)
    own = folder / DVC_YAML
    say(f"rebuilding {', '.join(targets)} in {folder}")
    with in_one_line(), closing(Dvc(folder)) as opened, opened.locked():
        plan = [stage for target in targets for stage in opened.upstream(opened.stage(own, target))]
        raw = raw_data.needed(opened, plan)
        raw_data.check_cached(raw)
        settings = Settings(opened.top / ".dvc")
    _copy(folder, settings, [stage for stage in raw if all(stage.recorded)])
    steps = [stage for stage in raw if not all(stage.recorded)]  # of `dvc import --no-download`
    steps += [stage for stage in plan if not stage.is_raw_data]
    dvc(folder, "repro", "--force", "--single-item", *dict.fromkeys(_target(stage, folder) for stage in steps))
    return folder, {stage.name for stage in plan if stage.file.resolve() == own.resolve()}


def _copy(folder: Path, settings: "Settings", raw: "list[Stage]") -> None:
    """Copy raw data from the project's cache, and have DVC use a new one, of the clone's own, from then on."""
    with settings.edit_local() as local:
        local["cache"]["type"] = "reflink,copy"
    if raw:
        try:
            dvc(folder, "checkout", *(_target(stage, folder) for stage in raw))
        except RunError as error:
            raise RunError(f"DVC's cache lacks some of the raw data: {error}; run `dvc fetch`") from None
    with settings.edit_local() as local:
        local["cache"]["dir"] = str(settings.folder / "cache")


def _target(stage: "Stage", folder: Path) -> str:
    """Return how DVC's commands call a stage in a folder."""
    file = os.path.relpath(stage.file, folder)
    return file if stage.is_raw_data else f"{file}:{stage.name}"


def _compared(
    wanted: Mapping[str, Out],
    found: Mapping[str, Out],
    wanted_file: Callable[[Out], Path | None],
    folder: Path,
    titles: tuple[str, str],
    say: Say,
) -> bool:
    """Print the table and where the first differing output differs; return whether all are equal."""
    width = max(map(len, wanted), default=0)
    say(f"{'out':{width}}  {titles[0]:13}  {titles[1]:13}  same")
    different = []
    for path, out in wanted.items():
        other = found.get(path)
        same = other is not None and other.md5 == out.md5
        found_md5 = other.md5[:12] if other else "missing"
        say(f"{path:{width}}  {out.md5[:12]:13}  {found_md5:13}  {'yes' if same else 'NO'}")
        different += [] if same else [out]
    if different:
        say(first_difference(different[0], wanted_file, folder))
    return not different


def _sha256(folder: Path, outs: Iterable[str]) -> str:
    """Return one hash over the paths and the contents of outputs."""
    each = {path: sha256_of_tree(folder / path) for path in outs}
    return hashlib.sha256(canonical_json(each).encode()).hexdigest()


def _promises_portable_bits(parameters: Mapping[str, Any], stages: Iterable[str]) -> bool:
    """Return whether all trainings among the stages promise the same bits on every CPU, by `params.yaml`."""
    names = [name for kind, _, name in (stage.partition("@") for stage in stages) if kind == "train"]
    trains = [entry.get("train") or {} for name in names if (entry := parameters.get("pipelines", {}).get(name))]
    default = TrainSettings.model_fields
    found = [[one.get(key, default[key].default) for key in ("bits", "compile")] for one in trains]
    return len(found) == len(names) and all(bits == PORTABLE and mode != "eager" for bits, mode in found)


def _other_machines(folder: Path, stages: set[str]) -> tuple[str, str]:
    """Return which other machine types the pipelines' records name, and what the records lack."""
    here = machine()
    other: dict[str, None] = {}
    unsaid: dict[str, None] = {}
    for name in sorted(stage.partition("@")[2] for stage in stages if stage.startswith("train@")):
        recorded = recorded_machine(folder, name)
        if recorded is None:
            continue  # not recorded: assumed to be this machine, so that a difference counts
        found = compare(recorded, here)
        if found.differing:
            other[f"{recorded.get('cpu', 'another CPU')}, which is not this machine type ({found})"] = None
        elif found.unsaid:
            unsaid[str(found)] = None
    return "; ".join(other), "; ".join(unsaid)
