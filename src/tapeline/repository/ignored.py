"""Keep what stages make out of Git.

DVC writes an output's line to `.gitignore` when its whole command has succeeded. If a later stage of the same
`dvc repro` fails, it takes the lines back, and never writes them again: `git add .` would then commit data and weights.
"""

import shlex
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tapeline.config.project import DVC_YAML, Project
from tapeline.parsing import yaml_text
from tapeline.repository.git import Git
from tapeline.runtime import files
from tapeline.runtime.errors import InputError, RunError

BY_DVC = (".tapeline", ".venv", "__pycache__", "*.pyc", ".*.partial")
"""What `.dvcignore` must have: other runs' worktrees, Python's bytecode, partially written files."""
BY_GIT = (*BY_DVC, "dvc_plots")
"""What a project's `.gitignore` has: also the pages that `dvc plots show` writes."""


def lacking(text: str, patterns: Iterable[str]) -> list[str]:
    """Return the patterns that an ignore file has no line of, with a slash at the end or without."""
    known = {line.strip().removesuffix("/") for line in text.splitlines()}
    return [pattern for pattern in patterns if pattern not in known]


def with_lines(text: str, lines: Sequence[str]) -> str:
    """Return an ignore file's text with more lines at its end; without any, as it is."""
    between = "\n" if lines and text and not text.endswith("\n") else ""
    return text + between + "".join(f"{line}\n" for line in lines)


def outputs(project: Project, stage: str, name: str) -> list[str]:
    """Return the outputs of a stage of a dataset or pipeline, relative to the project, by `dvc.yaml`."""
    try:
        entry = yaml_text.parsed(files.read_bytes(project.folder / DVC_YAML))["stages"][stage]["do"]
        made = [one for kind in ("outs", "metrics", "plots") for one in entry.get(kind, ())]
        return [path.replace("${key}", name) for one in made if (path := _cached(one))]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []  # whoever has another file here runs the stage without DVC


def _cached(entry: Any) -> str:
    """Return the path of an entry of `outs`; empty for one that is in Git on purpose."""
    if not isinstance(entry, Mapping):
        return str(entry)
    [(path, options)] = entry.items()
    return "" if isinstance(options, Mapping) and options.get("cache") is False else str(path)


def tracked(project: Project, paths: Iterable[str]) -> list[str]:
    """Return the paths of which Git tracks something, so that DVC refuses to record them; none without Git."""
    git = Git(project.folder)
    return [path for path in paths if git.ask("ls-files", "--", path)]


def left_out(project: Project, paths: Iterable[str]) -> list[str]:
    """Return the paths that Git ignores and does not track, so that no commit has them; none without Git."""
    git = Git(project.folder)
    return [
        path
        for path in paths
        if git.ask("check-ignore", "--quiet", "--", path) is not None and not git.ask("ls-files", "--", path)
    ]


def check_seen(paths: Iterable[Path]) -> None:
    """Raise `InputError` for the first of the files, there or still to be written, that Git ignores; not without Git.

    Neither a commit nor a clone would have it.
    """
    for path in paths:
        folder = next(parent for parent in path.parents if parent.is_dir())
        git, name = Git(folder), path.relative_to(folder).as_posix()
        if git.ask("check-ignore", "--quiet", "--", name) is not None:
            file, line, pattern, *_ = git("check-ignore", "--verbose", "-z", "--stdin", given=name).split("\0")
            raise InputError(
                f"{path} would never be committed: `{pattern}` in line {line} of {file} hides it from Git; narrow that "
                f"pattern until `git check-ignore {shlex.quote(path.name)}` finds none"
            )


def ignore(project: Project, paths: Iterable[str]) -> None:
    """Add a line to the `.gitignore` beside each path that exists and that Git would add; nothing without Git."""
    git = Git(project.folder)
    if shutil.which("git") is None or git.ask("rev-parse", "--git-dir") is None:
        return
    for path in map(Path, paths):
        if (project.folder / path).exists() and git.ask("check-ignore", "--quiet", "--", str(path)) is None:
            _add(project.folder / path.parent / ".gitignore", f"/{path.name}")


def _add(file: Path, line: str) -> None:
    try:
        before = files.read_bytes(file).decode()
    except FileNotFoundError:
        before = ""
    except UnicodeDecodeError:
        raise RunError(f"{file} is not UTF-8, so {line} was not added to it: add it by hand") from None
    if line not in before.splitlines():
        files.write_text(file, with_lines(before, [line]))
