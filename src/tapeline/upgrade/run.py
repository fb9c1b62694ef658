"""Bring a project of an older version to this one, without training again what comes out the same.

    upgrade(Project.find(), [], accept=[], dry_run=True, say=print)

Each pipeline's stages are rebuilt on their recorded inputs in a clone. Where every output is the same, the pipeline's
entries in `dvc.lock` are the rebuilt ones. `engine.lock` is one for the project: it is replaced as soon as one pipeline
is the same or accepted, and the others are stale then, with their recorded results as they were. If none is, nothing is
written.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tapeline.config import engine_lock
from tapeline.config.params import Params
from tapeline.config.project import DVC_YAML, PARAMS, Project
from tapeline.parsing import yaml_text
from tapeline.repository import described, dvc_lock, repair
from tapeline.repository.git import Git
from tapeline.repository.ignored import BY_DVC, BY_GIT, lacking, with_lines
from tapeline.repository.machines import compare, recorded_machine
from tapeline.repository.places import dvc_top
from tapeline.runtime import files, processes
from tapeline.runtime.environment import PORTABLE, machine
from tapeline.runtime.errors import InputError, RunError
from tapeline.runtime.interpreter import SOURCE
from tapeline.runtime.streams import Say
from tapeline.upgrade import forms, journal
from tapeline.upgrade.place import cloned
from tapeline.upgrade.proof import DIFFERS, NOT_BUILT, OF_A_PIPELINE, SAME, Proved, Prover

JOURNAL = "journal"
IGNORED = {".gitignore": BY_GIT, ".dvcignore": BY_DVC}
"""Ignore files and the patterns that they get, as `tapeline init` writes them."""


@dataclass(frozen=True)
class Change:
    """What will be written: texts by path in the project, and files to remove."""

    before: Mapping[str, str]
    texts: Mapping[str, str]
    removed: Sequence[str]

    @property
    def forms(self) -> list[str]:
        """The files whose form changes."""
        return [path for path, text in self.texts.items() if text != self.before.get(path)]

    @property
    def of_stages(self) -> list[str]:
        """Those of them that a stage's result may depend on: not a file that lacks patterns of what to ignore."""
        return [path for path in self.forms if Path(path).name not in IGNORED]


def upgrade(project: Project, names: Iterable[str], *, accept: Iterable[str], dry_run: bool, say: Say) -> bool:
    """Upgrade a project, and return whether every pipeline that is built came out the same or was accepted.

    names: the pipelines to rebuild (all that are built). accept: those whose new result is taken where it differs.
    Raises `InputError` for a project that cannot be upgraded as it is; nothing is written then.
    """
    work = project.shared / "upgrade"
    pending = project.local / "upgrade" / JOURNAL
    with processes.exclusive(work / "lock", waiting=say):
        _finish_earlier(project, pending, dry_run, say)
        change = _change(project)
        chosen, accepted = _chosen(change, names, accept)
        recorded = dvc_lock.entries(change.before.get(dvc_lock.LOCK, ""))
        if not change.of_stages and not change.removed and not _of_other_engine(recorded, chosen):
            if not change.forms:
                say(f"nothing to upgrade: everything is from this version ({', '.join(change.texts)})")
            else:
                _complete(project, change, dry_run, say)
            return True
        _check_clean(project)
        _check_idle(project)
        for path in change.forms:
            say(f"{path}: {'a new form' if path in change.before else 'new'}")
        if change.removed:
            say(
                f"src/tapeline: {len(change.removed)} files of the older library are removed; recipes and builders stay"
            )
        with cloned(project, work, texts=change.texts, removed=change.removed) as place:
            params = Params.load(place)
            prover = Prover(place, recorded, say)
            proved = prover.proved(chosen)
            _report(project, params, proved, accepted, say)
            taken = [one for one in proved if one.outcome == SAME or (one.outcome == DIFFERS and one.name in accepted)]
            if not taken and not all(one.reason == NOT_BUILT or one.name in accepted for one in proved):
                say("nothing written: no pipeline gives the same result; `--accept NAME` accepts a new or stale one")
                return False
            written, restored = _written(project, place, change, recorded, prover.entries(), taken)
        if dry_run:
            say(f"would write {', '.join(written)}; nothing written")
        else:
            _write(project, pending, change, written, restored, say)
            say(f"written: {', '.join(written)}; check `git diff` and commit")
        return _all_current(recorded, taken, say)


def _finish_earlier(project: Project, place: Path, dry_run: bool, say: Say) -> None:
    """Finish what a killed call had begun to write."""
    if journal.is_left(place):
        if dry_run:
            raise InputError("an upgrade was killed while it wrote: `tapeline upgrade` finishes it")
        _finish(project, place, say)
        say("finished what an earlier call had started to write")


def _all_current(recorded: Mapping[str, Any], taken: Iterable[Proved], say: Say) -> bool:
    """Name the built pipelines that are stale by the new `engine.lock`; return whether there are none."""
    built = {name for kind, _, name in (stage.partition("@") for stage in recorded) if kind in OF_A_PIPELINE}
    if stale := built - {one.name for one in taken}:
        say(f"stale according to the new {engine_lock.LOCK}: {', '.join(sorted(stale))}")
    return not stale


def _change(project: Project) -> Change:
    """Return today's form of each file."""
    before = {}
    top = dvc_top(project.folder)
    ignoring = [".gitignore", *([os.path.relpath(top / ".dvcignore", project.folder)] if top else [])]
    for path in (PARAMS, DVC_YAML, engine_lock.LOCK, dvc_lock.LOCK, *ignoring):
        if (project.folder / path).exists():
            try:
                before[path] = files.read_bytes(project.folder / path).decode()
            except UnicodeDecodeError as error:
                raise InputError(f"{path}: not UTF-8: {error.reason}") from None
    if DVC_YAML not in before:
        raise InputError(f"{project.folder} has no {DVC_YAML}: `tapeline init` makes a project")
    texts = {PARAMS: forms.params(before[PARAMS]), DVC_YAML: forms.dvc(before[DVC_YAML])}
    texts[engine_lock.LOCK] = engine_lock.installed().text()
    for path in ignoring:
        text = before.get(path, "")
        texts[path] = with_lines(text, lacking(text, IGNORED[Path(path).name]))
    return Change(before, texts, _older_library(project))


def _complete(project: Project, change: Change, dry_run: bool, say: Say) -> None:
    """Add what ignore files lack, where nothing else changes."""
    if not dry_run:
        for path in change.forms:
            files.write_text(project.folder / path, change.texts[path])
    written = "would write" if dry_run else "written:"
    say(f"no result to upgrade; {written} {', '.join(change.forms)}, which lacked patterns of `tapeline init`")


def _older_library(project: Project) -> list[str]:
    """Return the files of an older library in the project's own tree, which every command here would run instead.

    Recipes, builders, and what a `params.yaml` of the repository names stay.
    """
    git = Git(project.folder)
    top = git.top()
    library = top / "src" / "tapeline"
    if not (library / "__main__.py").is_file() or (library / "upgrade").is_dir() or top / "src" == SOURCE:
        return []
    named = set()
    for path in _files(git, f":(top,glob)**/{PARAMS}"):
        content = yaml_text.parsed_or_none(files.read_bytes(top / path))  # it may be another program's
        entries = [e for kind in ("datasets", "pipelines") for e in _mapping(_mapping(content).get(kind)).values()]
        for entry in map(_mapping, entries):
            named |= {(top / path).parent.joinpath(str(entry.get(key))).resolve() for key in ("needs", "recipe")}
    tracked = [top / path for path in _files(git, ":/src/tapeline")]
    return [
        os.path.relpath(path, project.folder)
        for path in tracked
        if path.resolve() not in named and path.relative_to(library).parts[0] not in ("recipes", "builders")
    ]


def _files(git: Git, pattern: str) -> list[str]:
    """Return the tracked files that match, as paths from the repository's root."""
    return [path for path in git("ls-files", "-z", "--full-name", pattern).split("\0") if path]


def _mapping(value: Any) -> dict[Any, Any]:
    return value if isinstance(value, dict) else {}


def _chosen(change: Change, names: Iterable[str], accept: Iterable[str]) -> tuple[list[str], set[str]]:
    """Return the pipelines to rebuild, in the order of `params.yaml`, and those to accept. Raises `InputError`."""
    known = yaml_text.parsed(change.texts[PARAMS]).get("pipelines")
    if not isinstance(known, dict):
        raise InputError(f"{PARAMS} has no pipelines")
    wanted, accepted = list(names), set(accept)
    for name in (*wanted, *accepted):
        if name not in known:
            raise InputError(f"no pipeline {name!r} in {PARAMS}: choose from {', '.join(known)}")
    return [name for name in known if not wanted or name in wanted or name in accepted], accepted


def _of_other_engine(recorded: Mapping[str, Any], chosen: Iterable[str]) -> list[str]:
    """Return the recorded stages that were made with another engine than this one."""
    engine, pipelines = engine_lock.installed(), set(chosen)
    return [
        name
        for name, entry in recorded.items()
        if (kind := name.partition("@")[0]) in engine_lock.STAGES
        and (kind == "ingest" or name.partition("@")[2] in pipelines)
        and entry.get("params", {}).get(engine_lock.LOCK)
        != {kind: engine.stages[kind], engine_lock.LIBRARIES: dict(engine.libraries)}
    ]


def _check_clean(project: Project) -> None:
    asked = ("status", "--porcelain", "--untracked-files=no", "--ignore-submodules=all")  # no clone has their files
    changed = Git(project.folder).lines(*asked)
    if changed:
        more = f" (and {len(changed) - 1} more)" if len(changed) > 1 else ""
        raise InputError(
            f"{changed[0][3:]} is not committed{more}: an upgrade starts from a clean commit; commit or stash it"
        )


def _check_idle(project: Project) -> None:
    """Raise `RunError` while another process of DVC works on this repository."""
    if holder := repair.holder(project):
        raise RunError(f"another DVC is at work here ({holder}): try again when it has finished")


def _report(project: Project, params: Params, proved: Iterable[Proved], accepted: set[str], say: Say) -> None:
    for one in proved:
        word = "accepted" if one.outcome == DIFFERS and one.name in accepted else one.outcome
        say(f"{one.name}: {word}{f': {one.reason}' if one.reason else ''}")
        for line in one.metrics:
            say(f"  {line}")
        record = recorded_machine(project.folder, one.name) if one.outcome == DIFFERS else None
        promised = params.pipelines[one.name].train.promised_bits
        if record and promised == PORTABLE != record.get("bits"):
            say(f"  recorded with native bits; `--accept {one.name}` takes portable ones")
        elif record and (other := compare(record, machine())).differing:
            say(f"  it was recorded on another machine type ({other}): the last bits may differ for that reason alone")


def _written(
    project: Project,
    place: Path,
    change: Change,
    recorded: Mapping[str, Any],
    rebuilt: Mapping[str, Any],
    taken: Iterable[Proved],
) -> tuple[dict[str, str], list[str]]:
    """Return the texts to write by path, and the outputs of which DVC has to check out other bytes."""
    from tapeline.repository.dvc.lock_file import lock_text

    texts = {path: text for path, text in change.texts.items() if text != change.before.get(path)}
    stages = {stage for one in taken for stage in one.stages}
    if stages:
        content = yaml_text.parsed(change.before[dvc_lock.LOCK])
        content["stages"] = {name: rebuilt[name] if name in stages else entry for name, entry in recorded.items()}
        if (text := lock_text(content)) != change.before[dvc_lock.LOCK]:
            texts[dvc_lock.LOCK] = text
    md5s = {out["path"]: out.get("md5") for stage in stages for out in recorded[stage].get("outs", ())}
    outs = [out for stage in stages for out in rebuilt[stage].get("outs", ())]
    for name in (one.name for one in taken):
        path = described.path(name)
        if (place / path).exists() and (project.folder / path).exists():
            text = files.read_bytes(place / path).decode()
            texts |= {path: text} if text != files.read_bytes(project.folder / path).decode() else {}
    return texts, sorted(out["path"] for out in outs if out.get("md5") != md5s.get(out["path"]))


def _write(
    project: Project, place: Path, change: Change, written: Mapping[str, str], restored: Sequence[str], say: Say
) -> None:
    """Write all, unless the files have changed meanwhile."""
    for path, text in change.before.items():
        if files.read_bytes(project.folder / path).decode(errors="replace") != text:
            raise InputError(f"{path} was changed while stages were rebuilt: call `tapeline upgrade` again")
    _check_idle(project)
    journal.write(place, project.folder, written, removed=change.removed, restored=restored)
    _finish(project, place, say)


def _finish(project: Project, place: Path, say: Say) -> None:
    if failure := journal.finish(place, project.folder):
        say(f"outputs in the working tree are as they were ({failure}): `dvc checkout` brings the recorded ones")
