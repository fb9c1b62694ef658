"""Refuse `.dvc` files in the repository that DVC does not see: DVC would drop their data, or never check them.

DVC skips what ignore files hide, by its own interpretation: `/data/*` hides `data/` itself, unlike in Git, so that not
even `!/data/raw/` makes its content visible again. What a `.dvcignore` hides is hidden on purpose, unless a stage
depends on it.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tapeline.config.project import DVC_YAML
from tapeline.repository.git import Git
from tapeline.runtime.errors import InputError

if TYPE_CHECKING:
    from dulwich.ignore import IgnoreFilterManager

    from tapeline.repository.dvc.repository import Dvc

DVC_FILES = (":(glob)**/*.dvc", f":(glob)**/{DVC_YAML}")


def check_all(dvc: "Dvc", dependencies: Iterable[Path]) -> None:
    """Check every DVC file of a repository, tracked or not; `dependencies` are its stages'.

    Raises `InputError` for the first file that DVC does not see.
    """
    top = dvc.git_top
    if not (top / ".git").exists():  # DVC without Git reads no .gitignore
        return
    needed = list(dependencies)
    listing = ("ls-files", "-z", "--full-name", "--cached", "--others", "--exclude-standard")
    listed = Git(dvc.top)(*listing, "--", *DVC_FILES)
    manager = _manager(top)
    for name in filter(None, listed.split("\0")):
        file = top / name
        if not file.is_file():
            continue
        if hidden := _hidden_from_git(manager, top, name):
            raise InputError(_refusal(name, hidden))
        if _belongs(file, needed) and (hidden := _hidden_by_dvcignore(dvc, top, name)):
            raise InputError(_refusal(name, hidden))


def check_source(source: Path) -> None:
    """Check the links in a source, and its or its parents' `.dvc` files, against `.gitignore` files alone.

    Costs nothing without a `.dvc` file, else tens of milliseconds: DVC is not imported. Raises `InputError`.
    """
    _check_links(source)
    source = Path(os.path.abspath(source))  # noqa: PTH100  # not resolved: `dvc add` tracks a link under its own name
    above = (source, *source.parents)
    check_files(file for path in above if path.name and (file := path.with_name(f"{path.name}.dvc")).is_file())


def check_files(files: Iterable[Path]) -> None:
    """Check `.dvc` files, there or still to be written, against `.gitignore` files alone. Raises `InputError`."""
    added = list(files)
    top = next((folder for file in added for folder in file.parents if (folder / ".git").exists()), None)
    if top is None:
        return
    manager = _manager(top)
    for file in added:
        if file.is_relative_to(top):
            name = file.relative_to(top).as_posix()
            if hidden := _hidden_from_git(manager, top, name):
                raise InputError(_refusal(name, hidden))


def _check_links(source: Path) -> None:
    """Raise `InputError` for a link in a folder that DVC does not follow: its target could change unnoticed."""
    for place, folders, names in os.walk(source):
        for name in sorted([*folders, *names]):
            path = Path(place, name)
            if not path.is_symlink() or path.is_file():
                continue
            what = "a folder" if path.is_dir() else "nothing"
            raise InputError(
                f"{path.relative_to(source.parent)} is a link to {what}: DVC follows only links to files; "
                f"{'put the folder itself there' if path.is_dir() else 'fix or remove it'}"
            )


def _refusal(name: str, hidden: str) -> str:
    return (
        f"DVC does not see {name}, and would drop its data or leave it stale: {hidden}; narrow that pattern until "
        "`dvc status` finds the file"
    )


def _manager(top: Path) -> "IgnoreFilterManager":
    from dulwich.ignore import IgnoreFilterManager
    from dulwich.repo import Repo

    with Repo(str(top)) as repo:
        return IgnoreFilterManager.from_repo(repo)


def _places(name: str) -> Iterator[str]:
    """Yield each parent folder of a file, with a trailing slash, then the file: what DVC checks in turn."""
    parts = name.split("/")
    yield from ("/".join(parts[:end]) + "/" for end in range(1, len(parts)))
    yield name


def _hidden_from_git(manager: "IgnoreFilterManager", top: Path, name: str) -> str:
    """Return which line of which file hides a path from DVC; empty if none does."""
    place = next((place for place in _places(name) if manager.is_ignored(place)), None)
    if place is None:
        return ""
    for path in (place, f"{place}any"):  # a `folder/*` pattern hides the folder without matching it
        matching = list(manager.find_matching(path))
        if matching and matching[-1].is_exclude:
            break
    pattern = matching[-1].pattern.decode() if matching else ""
    narrower = f" (`{pattern[:-1]}?*` does not)" if pattern.endswith("/*") else ""
    return f"{_line(top, place, pattern)} hides {place} from it{narrower}"


def _line(top: Path, place: str, pattern: str) -> str:
    """Return where a pattern is: in the nearest ignore file that contains it."""
    folders = [top / folder for folder in reversed(["", *(p for p in _places(place) if p.endswith("/"))])]
    for file in (*(folder / ".gitignore" for folder in folders), top / ".git" / "info" / "exclude"):
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines() if file.is_file() else []
        if pattern and pattern in (stripped := [line.strip() for line in lines]):
            return f"`{pattern}` in line {stripped.index(pattern) + 1} of {file.relative_to(top).as_posix()}"
    return f"`{pattern}` in one of your own ignore files" if pattern else "an ignore file"


def _hidden_by_dvcignore(dvc: "Dvc", top: Path, name: str) -> str:
    """Return which line of which `.dvcignore` hides a path; empty if none does."""
    for place in _places(name):
        if found := dvc.ignored_by(f"{top}/{place}"):
            file, line, pattern = found
            return f"`{pattern}` in line {line} of {file} hides {place} from it"
    return ""


def _belongs(file: Path, needed: Iterable[Path]) -> bool:
    """Return whether a stage depends on the data of a `.dvc` file: on the path, inside it or around it."""
    brought = file.with_suffix("")
    return file.suffix == ".dvc" and any(
        brought == path or brought.is_relative_to(path) or path.is_relative_to(brought) for path in needed
    )
