"""Rebuild HEAD in a temporary clone, from scratch, and compare every output with what `dvc.lock` records.

Floating-point results depend on the CPU: if the record was made on another machine type, two rebuilds are compared
with each other instead.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tapeline.config.project import PARAMS, Project
from tapeline.parsing import json_text, yaml_text
from tapeline.repository import dvc_lock
from tapeline.repository.dvc_lock import LOCK
from tapeline.repository.git import Git
from tapeline.repository.machines import compare, recorded_machine
from tapeline.runtime.environment import machine
from tapeline.runtime.errors import InputError, RunError

Say = Callable[[str], None]


@dataclass(frozen=True)
class Out:
    """One output of a stage: its path in the project's folder and its hash in a `dvc.lock`."""

    path: str
    md5: str


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
    if wrong := stale(_stages_of(lock), _parameters_of(parameters), targets):
        raise InputError(f"{LOCK} at {head} is stale: {wrong}; run `dvc repro {' '.join(targets)}` and commit {LOCK}")
    with tempfile.TemporaryDirectory(prefix="tapeline-verify-") as made:
        first = _rebuild(top, Path(made) / "first", inside, targets, say)
        stages = _stages(first, targets)
        recorded = _locked(project.folder, git("show", f"HEAD:{inside.as_posix()}/{LOCK}"), stages)
        other, unsaid = _other_machines(project.folder, stages)
        if not other:
            files = _Cached(project.folder)
            same = _compared(recorded, _locked(first, None, stages), files, first, ("recorded", "rebuilt"), say)
            if unsaid and not same:
                say(
                    f"{unsaid}: another machine type makes other last bits; a record of this one is `dvc repro --force`"
                )
            return same
        say(f"recorded on {other}: two rebuilds are compared with each other")
        second = _rebuild(top, Path(made) / "second", inside, targets, say)
        one, two = (_locked(folder, None, stages) for folder in (first, second))
        return _compared(one, two, lambda out: first / out.path, second, ("first rebuild", "second"), say)


def stale(stages: Mapping[str, Any], parameters: Mapping[str, Any], targets: Iterable[str]) -> str:
    """Return which stage `dvc.lock` records with parameters that differ from `params.yaml`; empty if none."""
    pipelines = {target.partition("@")[2] for target in targets}
    entries = parameters.get("pipelines", {})
    datasets = {entries[name].get("dataset") for name in pipelines if name in entries}
    for stage, recorded in stages.items():
        kind, _, name = stage.partition("@")
        if name not in (datasets if kind == "ingest" else pipelines):
            continue
        for key, value in recorded.get("params", {}).get(PARAMS, {}).items():
            found: Any = parameters
            for part in key.split("."):
                found = found.get(part) if isinstance(found, Mapping) else None
            if found != value:
                return f"{stage} was recorded with {key} {json.dumps(value)}, and {PARAMS} has {json.dumps(found)}"
    return ""


def _stages_of(text: str | None) -> dict[str, dict[str, Any]]:
    """Return the stages of a lock. Raises `InputError` for a truncated or altered one."""
    try:
        return dvc_lock.stages(text or "")
    except ValueError as error:
        raise InputError(f"{LOCK} was truncated or altered ({error}): `tapeline repair` repairs it") from None


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
        _dvc(clone, "remote", "add", "--quiet", "--local", "--default", "checkout", str(top / ".dvc" / "cache"))
        _dvc(clone, "pull", "--quiet", *bring)
    _dvc(folder, "repro", "--force", *targets)
    return folder


def _stages(folder: Path, targets: list[str]) -> set[str]:
    """Return the stages of this project's `dvc.yaml` that the targets go through."""
    answer = _dvc(folder, "repro", "--dry", "--force", *targets)
    return {line.split("'")[1] for line in answer.splitlines() if line.startswith("Running stage '")}


def _locked(folder: Path, text: str | None, stages: set[str]) -> dict[str, Out]:
    """Return the stages' recorded outputs by path, from a lock's `text`, or from `folder/dvc.lock` if it is None."""
    recorded = _stages_of(text if text is not None else (folder / LOCK).read_text(encoding="utf-8"))
    outs = [out for name, stage in recorded.items() if name in stages for out in stage.get("outs", ())]
    return {out["path"]: Out(out["path"], str(out.get("md5"))) for out in outs}


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
        say(_first_difference(different[0], wanted_file, folder))
    return not different


class _Cached:
    """The recorded content of an output, in DVC's cache."""

    def __init__(self, folder: Path) -> None:
        self._cache = Path(_dvc(folder, "cache", "dir").strip()) / "files" / "md5"

    def __call__(self, out: Out) -> Path | None:
        """Return the cached file, or the listing of a folder; None if the cache has lost it."""
        path = self._cache / out.md5[:2] / out.md5[2:]
        return path if path.exists() else None

    def listed(self, out: Out) -> dict[str, Path]:
        """Return a folder's cached files by relative path."""
        listing = self(out)
        try:
            entries = json_text.parsed(listing.read_bytes()) if listing else []
            return {str(entry["relpath"]): self._cache / entry["md5"][:2] / entry["md5"][2:] for entry in entries}
        except (ValueError, KeyError, TypeError):
            raise InputError(f"{listing} is not a list of a folder's files: delete it and run `dvc fetch`") from None


def _first_difference(out: Out, wanted_file: Callable[[Out], Path | None], folder: Path) -> str:
    """Return the first file of an output that differs, and the byte range."""
    rebuilt = folder / out.path
    wanted = wanted_file(out)
    if wanted is None:
        return f"{out.path} differs; its recorded bytes are not in the cache, so not where: `dvc pull` brings them"
    if out.md5.endswith(".dir") and isinstance(wanted_file, _Cached):
        recorded = wanted_file.listed(out)
    elif wanted.is_dir():
        recorded = {path.relative_to(wanted).as_posix(): path for path in wanted.rglob("*") if path.is_file()}
    else:
        recorded = {"": wanted}
    here = {path.relative_to(rebuilt).as_posix() for path in rebuilt.rglob("*") if path.is_file()} or {""}
    for name in sorted(recorded.keys() | here):
        label = f"{out.path}/{name}" if name else out.path
        if name not in recorded or name not in here:
            return f"{label} is in {'the rebuild' if name in here else 'the record'} only"
        difference = byte_range(recorded[name].read_bytes(), (rebuilt / name).read_bytes())
        if difference:
            return f"{label} differs: {difference}"
    return f"{out.path} differs"


def byte_range(one: bytes, other: bytes) -> str:
    """Return the first and last byte that differ, and the sizes if they differ; empty for equal bytes."""
    shorter = min(len(one), len(other))
    pair = (np.frombuffer(content[:shorter], np.uint8) for content in (one, other))
    places = np.flatnonzero(np.not_equal(*pair))
    sizes = f"{len(one)} bytes against {len(other)}" if len(one) != len(other) else ""
    within = f"bytes {places[0]} to {places[-1]}, {len(places)} of them" if len(places) else ""
    return "; ".join(part for part in (within, sizes) if part)


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


def _dvc(folder: Path, *arguments: str) -> str:
    """Run DVC with this interpreter's folder first in PATH, so that the stages use its `python`."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment.get('PATH', '')}"
    command = [sys.executable, "-P", "-m", "dvc", *arguments]
    answer = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if answer.returncode:
        raise RunError(f"dvc {arguments[0]} in {folder}: {_last(answer.stderr, answer.stdout)}")
    return answer.stdout


def _last(*texts: str) -> str:
    lines: Iterator[str] = (line for text in texts for line in reversed(text.strip().splitlines()) if line.strip())
    return next(lines, "it failed and printed nothing")
