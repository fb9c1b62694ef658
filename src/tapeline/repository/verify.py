"""Rebuild HEAD in a temporary clone, from scratch, and compare every output with what `dvc.lock` records.

Floating-point results depend on the CPU: if the record was made on another machine type, two rebuilds are compared
with each other instead.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from tapeline.config.project import PARAMS, Project
from tapeline.parsing import yaml_text
from tapeline.repository.dvc_errors import in_one_line
from tapeline.repository.dvc_lock import LOCK, Lock
from tapeline.repository.git import Git
from tapeline.repository.machines import compare, recorded_machine
from tapeline.repository.rebuilding import Cached, Out, dvc, first_difference, locked
from tapeline.runtime import scratch
from tapeline.runtime.environment import machine
from tapeline.runtime.errors import InputError
from tapeline.runtime.files import canonical_json, sha256_of_tree

Say = Callable[[str], None]


def verify(project: Project, targets: Iterable[str], *, say: Say) -> bool:
    """Return whether a rebuild of `targets` at HEAD has the recorded bytes; `say` gets the table.

    The project is not touched. Raises `RunError` without a commit or if a stage fails.
    """
    git = Git(project.folder)
    top = Path(git("rev-parse", "--show-toplevel"))
    inside = project.folder.relative_to(top.resolve())
    head = git("rev-parse", "--short", "HEAD")
    if git("status", "--porcelain", "--untracked-files=no"):
        say(f"verifying {head}; what is not committed is not in it")
    targets = list(targets)
    lock, parameters = (git.ask("show", f"HEAD:{(inside / name).as_posix()}") for name in (LOCK, PARAMS))
    if wrong := stale(Lock.read(lock or "", of=head), _parameters_of(parameters), targets):
        raise InputError(f"{LOCK} at {head} is stale: {wrong}; run `dvc repro {' '.join(targets)}` and commit {LOCK}")
    with scratch.folder("verify") as made:
        first = _rebuild(top, made / "first", inside, targets, say)
        stages = _stages(first, targets)
        recorded = locked(project.folder, git("show", f"HEAD:{inside.as_posix()}/{LOCK}"), stages)
        other, unsaid = _other_machines(project.folder, stages)
        if not other:
            files = Cached(project.folder)
            rebuilt = locked(first, None, stages)
            same = _compared(recorded, rebuilt, files, first, ("recorded", "rebuilt"), say)
            if same:
                say(f"SHA-256 of all outputs: {_sha256(first, rebuilt)}")
            if unsaid and not same:
                say(
                    f"{unsaid}: another machine type makes other last bits; a record of this one is `dvc repro --force`"
                )
            return same
        say(f"recorded on {other}: two rebuilds are compared with each other")
        second = _rebuild(top, made / "second", inside, targets, say)
        one, two = (locked(folder, None, stages) for folder in (first, second))
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
            found: Any = parameters
            for part in key.split("."):
                found = found.get(part) if isinstance(found, Mapping) else None
            if found != value:
                return f"{stage} was recorded with {key} {json.dumps(value)}, and {PARAMS} has {json.dumps(found)}"
    return ""


def _parameters_of(text: str | None) -> dict[str, Any]:
    """Return the content of a commit's `params.yaml`. Raises `InputError` if it is invalid."""
    try:
        found = yaml_text.parsed(text or "{}")
        pipelines = found.get("pipelines", {}) if isinstance(found, dict) else None
    except yaml_text.NotYaml as error:
        raise InputError(f"{PARAMS} of HEAD{error.where}: not YAML: {error}") from None
    if not isinstance(pipelines, dict) or not all(isinstance(entry, dict) for entry in pipelines.values()):
        raise InputError(f"{PARAMS} of HEAD has no pipelines: commit one that has")
    return dict(found)


def _rebuild(top: Path, clone: Path, inside: Path, targets: list[str], say: Say) -> Path:
    """Clone HEAD and run the targets there with an empty cache; return the project's folder in the clone."""
    Git(top)("clone", "--quiet", "--no-hardlinks", str(top), str(clone))
    folder = clone / inside
    say(f"rebuilding {', '.join(targets)} in {folder}")
    bring = [path.relative_to(clone).as_posix() for path in clone.glob("**/data/raw/**/*.dvc")]
    if bring:  # raw data added with `dvc add`: pulled from this checkout's cache as a remote
        dvc(clone, "remote", "add", "--quiet", "--local", "--default", "checkout", str(top / ".dvc" / "cache"))
        dvc(clone, "pull", "--quiet", *bring)
    dvc(folder, "repro", "--force", *targets)
    return folder


def _stages(folder: Path, targets: list[str]) -> set[str]:
    """Return the stages of this project's `dvc.yaml` that the targets go through."""
    from tapeline.repository.dvc_internals import Dvc

    own = folder / "dvc.yaml"
    with in_one_line(), closing(Dvc(folder)) as opened:
        plans = [opened.upstream(opened.stage(own, target)) for target in targets]
    return {stage.name for plan in plans for stage in plan if stage.file.resolve() == own.resolve()}


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
