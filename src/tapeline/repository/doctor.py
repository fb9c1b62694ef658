"""`tapeline doctor`: what is missing on this machine and in this repository, and how to get it."""

import importlib.metadata
import importlib.util
import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tapeline.config import engine_lock, schema
from tapeline.config.params import Params
from tapeline.config.project import DVC_YAML, PARAMS, Project
from tapeline.parsing import yaml_text
from tapeline.repository import artifacts, line_ends
from tapeline.repository.dvc_errors import in_one_line
from tapeline.repository.dvc_lock import LOCK, in_conflict
from tapeline.repository.git import Git
from tapeline.repository.ignored import lacking, left_out, outputs, tracked
from tapeline.repository.places import dvc_around, dvc_left_out, dvc_top
from tapeline.repository.repair import is_whole
from tapeline.runtime import files
from tapeline.runtime.environment import library_versions
from tapeline.runtime.errors import InputError, RunError, TapelineError

OK, NOTE, MISSING = "ok", "note", "MISSING"
PYTHONS = ((3, 11), (3, 13))
"""The oldest and the newest Python that the dependencies have wheels for."""
ROOM = 2 << 30
"""Bytes of free disk below which a training may not get to its end."""
EXTRAS = {
    "tensorboard": ("tensorboard", "train.tensorboard and looking at a profile need it"),
    "cartpole": ("gymnasium", "its recipe needs it"),
}


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. A `note` is something that only some commands need."""

    state: str
    what: str
    remedy: str = ""


def examine(start: Path) -> Iterator[Finding]:
    """Yield what there is for a folder, which need be no project."""
    yield from _python()
    yield from _git(start)
    yield from _extras()
    yield from _disk(start)
    try:
        project = Project.find(start)
    except InputError:
        remedy = _beginning(start, has_other=_is_foreign(start / DVC_YAML))
        yield Finding(MISSING, f"no project: no {PARAMS} in {start} or above it", remedy)
        return
    if _is_foreign(project.folder / PARAMS):
        what = f"no project: {project.folder / PARAMS} has neither datasets nor pipelines"
        yield Finding(MISSING, what, _beginning(project.folder, has_other=True))
        return
    for look in (_params, _engine, _dvc, _line_ends, _remotes, _schema):
        yield from look(project)


def _line_ends(project: Project) -> Iterator[Finding]:
    """Yield a note for what has Git check inputs out with other line ends than they have."""
    try:
        params, _ = Params.sound(project.folder)
    except InputError:  # named above
        return
    inputs = [one.recipe for one in params.pipelines.values()]
    inputs += [one.needs for one in (*params.datasets.values(), *params.pipelines.values())]
    for cause, name in line_ends.changed(project, dict.fromkeys(map(str, inputs))):
        what = f"{cause}: Git converts the line endings of {name}, so that DVC finds every new checkout stale"
        yield Finding(NOTE, what, line_ends.REMEDY)


def _is_foreign(path: Path) -> bool:
    """Return whether a `params.yaml` or `dvc.yaml` is of another kind: `tapeline init` refuses its folder."""
    try:
        content = yaml_text.parsed(files.read_bytes(path))
    except (OSError, InputError, yaml_text.NotYaml):
        return False
    if not isinstance(content, Mapping):
        return False
    if path.name == PARAMS:
        return not content.keys() & {"datasets", "pipelines"}
    stages = content.get("stages")
    own = stages if isinstance(stages, Mapping) else {}
    return not any(isinstance(own.get(stage), Mapping) and "foreach" in own[stage] for stage in engine_lock.STAGES)


def _beginning(folder: Path, *, has_other: bool) -> str:
    """Return how to get a project here. has_other: whether a file is there that `tapeline init` does not replace."""
    making = "`tapeline init FOLDER` makes one in a separate folder" if has_other else "`tapeline init`"
    inner = next((path.parent for path in sorted(folder.glob(f"[!.]*/{PARAMS}")) if not _is_foreign(path)), None)
    return f"`cd {shlex.quote(inner.name)}`, where there is one, or {making}" if inner else making


def _python() -> Iterator[Finding]:
    version = sys.version_info[:2]
    oldest, newest = (".".join(map(str, bound)) for bound in PYTHONS)
    if PYTHONS[0] <= version <= PYTHONS[1]:
        yield Finding(OK, f"Python {version[0]}.{version[1]}")
    else:
        yield Finding(MISSING, f"Python {version[0]}.{version[1]}", f"use Python {oldest} to {newest}")


def _git(start: Path) -> Iterator[Finding]:
    if shutil.which("git") is None:
        yield Finding(MISSING, "git", "install it")
        return
    git = Git(start)
    name, email = git.ask("config", "user.name"), git.ask("config", "user.email")
    if name and email:
        yield Finding(OK, f"git, as {name} <{email}>")
    else:
        yield Finding(
            NOTE,
            "Git does not know who you are, which commits and tags record",
            "`git config user.name`, `git config user.email`",
        )


def _extras() -> Iterator[Finding]:
    for extra, (package, used) in EXTRAS.items():
        if importlib.util.find_spec(package):
            yield Finding(OK, f"{package} {importlib.metadata.version(package)}")
        else:
            yield Finding(NOTE, f"{package} is not installed: {used}", f"install tapeline[{extra}]")


def _disk(start: Path) -> Iterator[Finding]:
    free = shutil.disk_usage(start).free
    said = f"{free / 2**30:.1f} GiB of free disk space"
    yield (
        Finding(OK, said)
        if free >= ROOM
        else Finding(MISSING, said, "free some with `tapeline prune` or `dvc gc`, or use a larger disk")
    )


def _params(project: Project) -> Iterator[Finding]:
    try:
        params, mistakes = Params.sound(project.folder)
    except InputError as error:
        yield Finding(MISSING, str(error), "correct it")
        return
    for mistake in dict.fromkeys(mistakes.values()):
        yield Finding(MISSING, mistake, "correct it")
    if not mistakes:
        yield Finding(OK, f"{PARAMS}: {len(params.datasets)} datasets, {len(params.pipelines)} pipelines")


def _engine(project: Project) -> Iterator[Finding]:
    try:
        known = engine_lock.recorded(project.folder)
    except InputError as error:
        yield Finding(MISSING, str(error), "`tapeline lock`, or `tapeline upgrade`")
        return
    if known is None:
        yield Finding(MISSING, f"no {engine_lock.LOCK}", "`tapeline lock`")
        return
    for name, version in library_versions().items():
        if (wanted := known.libraries[name]) == version:
            yield Finding(OK, f"{name} {version}")
        else:
            remedy = f"`pip install {name}=={wanted}`, or `tapeline upgrade`"
            yield Finding(MISSING, f"{name} {wanted}: {version} is installed", remedy)
    if stages := [stage for stage in engine_lock.STAGES if known.stages[stage] != engine_lock.current(stage)]:
        remedy = "`tapeline lock`, or `tapeline upgrade`"
        yield Finding(MISSING, f"{engine_lock.LOCK} does not match the code of {', '.join(stages)}", remedy)
    else:
        yield Finding(OK, f"{engine_lock.LOCK} matches this code")


def _dvc(project: Project) -> Iterator[Finding]:
    top = dvc_top(project.folder)
    if top is None:
        around = dvc_around(project.folder)
        other = f" in this Git repository: DVC uses {around}, which no clone has" if around else ""
        remedy = dvc_left_out(project.folder)
        if remedy:
            yield Finding(MISSING, "Git has the folder .dvc, but this checkout lacks it", remedy)
        else:
            yield Finding(MISSING, f"no DVC repository{other}", "`tapeline init` makes one")
        return
    yield Finding(OK, f"dvc {importlib.metadata.version('dvc')}, in {top}")
    if shutil.which("dvc") is None:
        remedy = "activate the environment that has it; with pipx, `pipx install --include-deps`"
        yield Finding(NOTE, "the command dvc is not on the PATH, and many remedies name it", remedy)
    try:
        Git(project.folder).check()
    except InputError:
        yield Finding(MISSING, f"{project.folder} is not in a Git repository", "`git init`")
    except RunError as error:  # Git refuses it, and says what helps
        yield Finding(MISSING, str(error))
    if not (project.folder / DVC_YAML).is_file():
        yield Finding(MISSING, f"no {DVC_YAML}", "restore it; for a new project, `tapeline init` writes it")
    elif _is_foreign(project.folder / DVC_YAML):
        remedy = "restore it; `tapeline init FOLDER` makes a project in a separate folder"
        yield Finding(MISSING, f"{DVC_YAML} has no stage of Tapeline's", remedy)
    lock = project.folder / LOCK
    if lock.exists() and not is_whole(content := files.read_bytes(lock)):
        what = "has a Git merge conflict" if in_conflict(content) else "was truncated while it was written"
        yield Finding(MISSING, f"{LOCK} {what}", "`tapeline repair`")
    yield from _in_git(project)
    ignore = top / ".dvcignore"
    text = files.read_bytes(ignore).decode("utf-8", "replace") if ignore.exists() else ""
    if lacking(text, [".tapeline"]):
        yield Finding(
            MISSING, ".dvcignore does not list .tapeline, which holds the worktrees of other runs", "add the line"
        )


def _cache(cache: Path) -> Iterator[Finding]:
    """Name a folder of DVC's cache that another user made, as in a clone that several people share."""
    folders = (
        cache,
        cache / "files" / "md5",
        *sorted(cache.glob("files/md5/??")),
        cache / "runs",
        *cache.glob("runs/*"),
    )
    if closed := [folder for folder in folders if folder.is_dir() and not os.access(folder, os.W_OK | os.X_OK)]:
        change = f"chmod -R g+ws {shlex.quote(str(cache))}"
        remedy = f"`dvc config cache.shared group`, and as the folder's owner `{change}`"
        yield Finding(MISSING, f"{closed[0]} is another user's, so that DVC can record nothing in it", remedy)


def _in_git(project: Project) -> Iterator[Finding]:
    """Name the outputs that Git tracks, which DVC refuses to record, the inputs that it ignores, and lost artifacts."""
    try:
        params, mistakes = Params.sound(project.folder)
    except InputError:  # named above
        return
    stages = [("ingest", name) for name in params.datasets]
    stages += [(stage, name) for name in params.pipelines for stage in engine_lock.STAGES[1:]]
    paths = [path for stage, name in stages for path in outputs(project, stage, name)]
    unsound = [key.partition(".")[2] for key in mistakes if key.startswith("pipelines.")]
    exports = [path for name in unsound for path in outputs(project, "export", name)]
    yield from _artifacts(project, [*params.pipelines, *unsound], [*paths, *exports])
    for path in tracked(project, paths):
        yield Finding(MISSING, f"Git tracks {path}, an output", f"`git rm -r --cached {path}`, and commit")
    inputs = [PARAMS, DVC_YAML, LOCK, engine_lock.LOCK, *(one.recipe for one in params.pipelines.values())]
    inputs += [one.needs for one in (*params.datasets.values(), *params.pipelines.values())]
    made = ["..", *paths]  # what lies outside may be another project's output
    own = sorted({one for one in map(str, inputs) if not any(f"{one}/".startswith(f"{path}/") for path in made)})
    for path in left_out(project, own):
        around = (PurePosixPath(path), *PurePosixPath(path).parents)
        if not any((project.folder / f"{one}.dvc").exists() for one in around if one.name):  # else DVC has it
            remedy = "change .gitignore, or `dvc add` it if it is data"
            yield Finding(MISSING, f"Git ignores {path}, so clones will not have it", remedy)


def _artifacts(project: Project, pipelines: list[str], made: list[str]) -> Iterator[Finding]:
    """Name the artifacts that the registry could not find."""
    try:
        for what, remedy in artifacts.mistakes(project, pipelines, made):
            yield Finding(MISSING, what, remedy)
    except InputError as error:
        yield Finding(MISSING, str(error), "correct it")


def _remotes(project: Project) -> Iterator[Finding]:
    try:
        yield from _dvc_settings(project)
    except TapelineError as error:
        yield Finding(MISSING, str(error), "correct .dvc/config, or .dvc/config.local")
    said = Git(project.folder).ask("remote")
    yield from _remote("Git", None if said is None else said.split(), "the tags", "`git remote add origin URL`")


def _remote(of: str, names: list[str] | None, what: str, remedy: str) -> Iterator[Finding]:
    if names:
        yield Finding(OK, f"{of.lower()} remote {names[0]}")
    elif names is not None:  # else there is no repository, which is named above
        yield Finding(NOTE, f"no {of} remote: others cannot get {what}", remedy)


def _dvc_settings(project: Project) -> Iterator[Finding]:
    """Name what is wrong with the cache that is set, and the default remote, the only one that is used.

    Raises `RunError` for an unreadable setting.
    """
    from tapeline.repository.dvc.settings import Settings

    if (top := dvc_top(project.folder)) is None:  # named above
        return
    with in_one_line():
        settings = Settings(top / ".dvc")
        cache, default, names = Path(settings.cache), settings.default_remote, settings.remotes
    yield from _cache(cache)
    if names and not default:
        what = f"no DVC remote is the default, so that {names[0]} is not used"
        yield Finding(NOTE, what, f"`dvc remote default {names[0]}`")
    else:
        yield from _remote("DVC", [default] if default else [], "the data and models", "`dvc remote add -d NAME URL`")


def _schema(project: Project) -> Iterator[Finding]:
    path = project.local / schema.FILE
    if path.exists():
        yield Finding(OK, f"{PARAMS} has a schema for editors")
    else:
        yield Finding(NOTE, f"no schema of {PARAMS} for editors", "`tapeline schema`")
