"""Turn a folder into a Tapeline project: an empty one, or one in an existing repository.

    init(Path(), data=Path("houses.csv"), say=print)

Existing files are never overwritten, and a second call changes nothing. All input is checked before anything is
written.
"""

import os
import re
import shlex
import tempfile
from collections.abc import Callable, Iterable
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from tapeline.config import engine_lock, schema
from tapeline.config.params import NAME, Params
from tapeline.config.project import DVC_YAML, PARAMS, Project
from tapeline.parsing.yaml_flow import yaml_flow
from tapeline.repository import catalogue as catalogue_file
from tapeline.repository import dvc_call, unseen
from tapeline.repository.dvc_lock import LOCK
from tapeline.repository.git import Git
from tapeline.repository.ignored import BY_DVC, BY_GIT, check_seen, lacking, with_lines
from tapeline.repository.places import dvc_left_out, dvc_top
from tapeline.runtime import files
from tapeline.runtime.errors import InputError, RunError
from tapeline.scaffold import catalogue, images, raw_data, stages, table
from tapeline.scaffold.naming import check_apart
from tapeline.scaffold.proposal import Proposal, template, yaml_lines

ELSEWHERE = "`tapeline init FOLDER` makes a project in a separate folder"


def init(
    folder: Path, *, data: Path | str | None = None, flows: bool = False, say: Callable[[str], None] = print
) -> list[Path]:
    """Write the files that a project lacks, and return the new ones.

    data: a CSV or Parquet file, a folder of images, or `tfds:NAME` of the TFDS catalogue, for the first dataset; by
    default, Fisher's irises. Data from outside the folder is copied to `data/raw/` and versioned by DVC.
    flows: a `prefect.yaml` with a nightly run too.
    Raises `InputError` where `dvc.yaml` or `params.yaml` there is of another kind, `.dvcignore` is not UTF-8, the data
    cannot be used, or Git ignores a file of the project, and `RunError` where Git refuses the repository, or DVC fails:
    if that is at `dvc add`, all else is written.
    """
    with tempfile.TemporaryDirectory(prefix="tapeline-") as work:
        return _initialized(folder.resolve(), data, flows, Path(work), say)


def _initialized(
    folder: Path, data: Path | str | None, flows: bool, work: Path, say: Callable[[str], None]
) -> list[Path]:
    """Do what `init` says. work: an empty folder for what is needed until then."""
    repository = _git_root(folder)
    _dvcignore(dvc_top(folder) or repository or folder)
    texts: dict[Path, str] = {}
    copied: tuple[Path, Path] | None = None
    if _is_project(folder):
        if data is not None:
            raise InputError(f"{folder} is already a project: add {data} to its {PARAMS} by hand")
        if flows and not (folder / "prefect.yaml").exists():
            pipelines = list(Params.sound(folder)[0].pipelines) or ["NAME"]
            texts = _flows(folder, pipelines[0])
            check_seen(texts)
            if others := pipelines[1:]:
                say(f"prefect.yaml schedules {pipelines[0]}: add a deployment for {', '.join(others)}")
    else:
        texts, copied, params = _new_project(folder, data or raw_data.iris(work), flows, work, say)
        irises = [copied[1]] if copied and data is None else []
        if repository is not None:
            check_seen([*texts, *irises, *_other_files(folder, params, dvc_top(folder) or repository)])
            unseen.check_files([folder / DVC_YAML, folder / LOCK])  # as DVC sees them, unlike Git
    if repository is not None and (remedy := dvc_left_out(folder)):
        raise InputError(f"Git has the folder .dvc, but this checkout lacks it: {remedy}")
    _check_free([*texts, *([copied[1]] if copied else [])])
    files.make_folder(folder)
    _prepare_repository(folder, repository, say)
    new = raw_data.copy(*copied) if copied else []
    for path, text in texts.items():
        files.write_text(path, text)
    new += [*texts, *_write_gitignore(folder)]
    if not (folder / engine_lock.LOCK).exists():  # with other code, it is not for `init` to accept that
        engine_lock.write(folder)
        new.append(folder / engine_lock.LOCK)
    new += catalogue_file.write(folder, Params.sound(folder)[0])
    schema.write(Project.find(folder))
    if copied and data is not None:  # the irises are small enough for Git
        new += _add_to_dvc(folder, copied[1], say)
    return new


def _new_project(
    folder: Path, data: Path | str, flows: bool, work: Path, say: Callable[[str], None]
) -> tuple[dict[Path, str], tuple[Path, Path] | None, Params]:
    """Return the texts of a new project's files, source and target of the data if it must be copied, and its settings.

    Raises `InputError` if `params.yaml` would be invalid.
    """
    copied: tuple[Path, Path] | None = None
    if str(data).startswith(catalogue.SCHEME):
        proposal = catalogue.propose(str(data).removeprefix(catalogue.SCHEME), work, folder)
        texts = _texts(folder, proposal, flows)
    else:
        place, copied = raw_data.placed(folder, Path(data))
        source = copied[0] if copied else place
        proposal = _proposal(source, place.relative_to(folder).as_posix(), folder)
        texts = _texts(folder, proposal, flows)
        check_apart(folder, source, texts)
    name = proposal.name
    params = Params.load_for(folder, pipeline=name, dataset=name, text=texts[folder / PARAMS])
    params.pipeline(name)
    for line in proposal.said:
        say(line)
    return texts, copied, params


def _other_files(folder: Path, params: Params, root: Path) -> list[Path]:
    """Return what else Git must have of a new project. root: the folder with its `.dvc`."""
    plots = [root / ".dvc" / "plots" / file.name for file in _plots()]
    own = [folder / engine_lock.LOCK, folder / LOCK, *catalogue_file.changed(folder, params)]
    return [*own, root / ".dvc" / "config", root / ".dvcignore", *plots]


def _plots() -> list[Traversable]:
    """Return the files that DVC's plots are made with."""
    plots = resources.files("tapeline.scaffold") / "templates" / "plots"
    return sorted(plots.iterdir(), key=lambda file: file.name)


def _is_project(folder: Path) -> bool:
    """Return whether both files exist and are Tapeline's. Raises `InputError` if one is foreign or missing."""
    own = template(DVC_YAML)
    text = files.read_bytes(folder / DVC_YAML).decode("utf-8", "replace") if (folder / DVC_YAML).exists() else own
    if not stages.are_current(text):
        if text.startswith(own.partition(",")[0]):
            raise InputError(f"{folder} has a {DVC_YAML} of an older Tapeline: `tapeline upgrade` migrates it")
        raise InputError(f"{folder} has a {DVC_YAML} of its own: {ELSEWHERE}")
    if (folder / PARAMS).exists():
        try:
            _, mistakes = Params.sound(folder)
        except InputError as error:
            raise InputError(f"{folder} has a {PARAMS} that is not Tapeline's ({error}): {ELSEWHERE}") from None
        for key, mistake in mistakes.items():
            if not NAME.fullmatch(key.partition(".")[2]):
                raise InputError(f"{mistake}; `dvc repro` would pass it to a shell unquoted")
    if (folder / DVC_YAML).exists() != (folder / PARAMS).exists():
        here, lacking = (DVC_YAML, PARAMS) if (folder / DVC_YAML).exists() else (PARAMS, DVC_YAML)
        raise InputError(f"{folder} has a {here} and no {lacking}: restore it, or move {here} away")
    return (folder / DVC_YAML).exists()


def _check_free(paths: Iterable[Path]) -> None:
    """Raise `InputError` for a file that exists, or that cannot be written because another is in a folder's place."""
    for path in paths:
        if os.path.lexists(path):
            raise InputError(f"{path} exists: move it away, or rename the data, after which the files are named")
        there = next(parent for parent in path.parents if os.path.lexists(parent))
        if not there.is_dir():
            raise InputError(f"{there} is not a folder: move it away")


def _proposal(data: Path, needs: str, folder: Path) -> Proposal:
    return images.propose(data, needs, folder) if data.is_dir() else table.propose(data, needs, folder)


def _texts(folder: Path, proposal: Proposal, flows: bool) -> dict[Path, str]:
    """Return the files of a new project with their content."""
    name = proposal.name
    recipe = f"recipes/{name.replace('-', '_')}.py"
    artifact = f"artifacts:\n  {name}: {{path: models/{name}, type: model}}\n"
    params = template(
        "params.yaml",
        name=name,
        dataset=yaml_lines(proposal.dataset, 4),
        recipe=recipe,
        params=yaml_flow(proposal.params),
        train=yaml_flow(proposal.train),
    )
    return {
        folder / PARAMS: params,
        folder / DVC_YAML: template(DVC_YAML) + artifact,
        folder / recipe: proposal.recipe,
        **(_flows(folder, name) if flows else {}),
    }


def _flows(folder: Path, name: str) -> dict[Path, str]:
    """Return a schedule for a pipeline and the file that it runs."""
    pool = {"name": "tapeline-" + re.sub(r"[^\w-]", "-", folder.name)}  # Prefect takes not all characters
    return {
        folder / "prefect.yaml": template("prefect.yaml", name=name, pool=yaml_flow(pool)),
        folder / "flows" / "training.py": template("training.py"),
    }


def _git_root(folder: Path) -> Path | None:
    """Return the root of the Git repository that contains, or will contain, a folder, which need not exist.

    Raises `RunError` with Git's line if there is one that Git refuses to read, as another user's, and `InputError` if
    a `.git` there is none.
    """
    git = Git(next(parent for parent in (folder, *folder.parents) if parent.is_dir()))
    top = git.ask("rev-parse", "--show-toplevel")
    if top is not None:
        return Path(top)
    if any(os.path.lexists(parent / ".git") for parent in (git.folder, *git.folder.parents)):
        git.check()
    return None


def _prepare_repository(folder: Path, repository: Path | None, say: Callable[[str], None]) -> None:
    """Initialize Git and DVC where missing, and set up DVC's plots and `.dvcignore`."""
    if repository is None:
        Git(folder)("init", "--quiet")
        repository = folder
        say(f"made {folder} a Git repository")
    root = dvc_top(folder)
    if root is None:
        root = repository
        _run(root, "init", "--quiet")
        say(f"made {root} a DVC repository")
    for file in _plots():
        if not (root / ".dvc" / "plots" / file.name).exists():
            files.write_text(root / ".dvc" / "plots" / file.name, file.read_text(encoding="utf-8"))
    if not dvc_call.called(root, "config", "plots.html_template").stdout.strip():
        _run(root, "config", "plots.html_template", "plots/page.html")
        say(f"set plots.html_template in {root / '.dvc' / 'config'}, so that pages of plots use .dvc/plots/page.html")
    ignore, known = root / ".dvcignore", _dvcignore(root)
    if missing := lacking(known, BY_DVC):
        files.write_text(ignore, with_lines(known, missing))
        if known:
            say(f"added to {ignore}: {' '.join(missing)}")


def _dvcignore(root: Path) -> str:
    """Return the text of `.dvcignore`; empty if there is none. Raises `InputError` if it is not UTF-8."""
    file = root / ".dvcignore"
    try:
        return files.read_bytes(file).decode() if file.exists() else ""
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not UTF-8: {error.reason}; save it as UTF-8") from None


def _add_to_dvc(folder: Path, place: Path, say: Callable[[str], None]) -> list[Path]:
    """Add copied data to DVC, and return the files that this makes. Git would keep every version forever."""
    written = [path for path in (raw_data.dvc_file(place), place.parent / ".gitignore") if not path.exists()]
    path = place.relative_to(folder).as_posix()
    _run(folder, "add", path)
    say(f"added {path} to DVC: commit {path}.dvc to Git; `dvc push` uploads the data to a remote")
    return [path for path in written if path.exists()]


def _write_gitignore(folder: Path) -> list[Path]:
    """Write a `.gitignore` for the state folder and what Python and DVC leave, unless there is one."""
    files.make_folder(folder / files.STATE)
    path = folder / ".gitignore"
    if path.exists():
        return []
    files.write_text(path, with_lines("", BY_GIT))
    return [path]


def _run(folder: Path, *arguments: str) -> None:
    """Call DVC. Raises `RunError` with its last line."""
    answer = dvc_call.called(folder, *arguments)
    if answer.returncode:
        said = (answer.stderr or answer.stdout).strip().splitlines()
        called = shlex.join(["dvc", *arguments])
        raise RunError(f"`{called}` failed in {folder}: {said[-1] if said else answer.returncode}")
