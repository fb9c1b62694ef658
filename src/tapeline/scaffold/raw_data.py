"""The raw data of a new project: in place, or copied to `data/raw/` from elsewhere."""

import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

from tapeline.config.project import Project
from tapeline.repository import unseen
from tapeline.repository.ignored import tracked
from tapeline.runtime import files
from tapeline.runtime.errors import InputError
from tapeline.scaffold import images


def placed(folder: Path, data: Path) -> tuple[Path, tuple[Path, Path] | None]:
    """Return where the data will be, and the source and target if it must be copied.

    Raises `InputError` for data that do not exist, cannot be copied, or have a name that `params.yaml` cannot have, and
    for a copy that Git ignores so that DVC could not version it.
    """
    try:
        data = data.resolve()
        there = data.exists()
    except (OSError, RuntimeError, ValueError) as error:  # a link to itself, a name that is too long, a null byte
        raise InputError(f"{data} is not a file's name: {getattr(error, 'strerror', None) or error}") from None
    if not there:
        raise InputError(f"{data} does not exist")
    _check_utf8(data)
    files.check_tree(data)
    if data.is_relative_to(folder):
        return data, None
    place = folder / "data" / "raw" / data.name
    _check_utf8(place)
    for path in (place, dvc_file(place)):
        if os.path.lexists(path):
            raise InputError(f"{path} exists, but {data} would be copied there: move one of them away")
    unseen.check_files([dvc_file(place)])
    return place, (data, place)


def dvc_file(path: Path) -> Path:
    """Return the file that `dvc add` writes for a file or folder."""
    return path.with_name(f"{path.name}.dvc")


def unversioned(project: Project, paths: Iterable[str]) -> list[str]:
    """Return the paths, relative to the project, that neither DVC nor Git has yet."""
    added = [path for path in paths if not any(dvc_file(project.folder / one).exists() for one in _above(path))]
    known = tracked(project, added)
    return [path for path in added if path not in known]


def _above(path: str) -> Iterator[PurePosixPath]:
    """Yield a relative path and the folders above it."""
    yield from (one for one in (PurePosixPath(path), *PurePosixPath(path).parents) if one.name)


def copy(source: Path, place: Path) -> list[Path]:
    """Copy a file, or the images of a folder, what links lead to as well, and return `place` alone."""
    if source.is_dir():
        with files.replacing(place) as partial:
            for file in images.listed(source):
                files.make_folder((partial / file.relative_to(source)).parent)
                _copy(file, partial / file.relative_to(source))
    else:
        files.make_folder(place.parent)
        partial = place.with_name(f".{place.name}{files.PARTIAL}")
        try:
            _copy(source, partial)
            files.sync(partial)
            partial.replace(place)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        files.sync(place.parent)
    return [place]


def _copy(source: Path, target: Path) -> None:
    """Copy a file's bytes, without holding them all in memory."""
    descriptor = files.own(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    with os.fdopen(descriptor, "wb") as copied, files.opened(source) as file:
        shutil.copyfileobj(file, copied)


def iris(work: Path) -> Path:
    """Return a new file in `work` with scikit-learn's copy of Fisher's irises: column names and 150 rows."""
    from sklearn.datasets import load_iris

    irises = load_iris()
    names = [name.removesuffix(" (cm)").replace(" ", "_") for name in irises.feature_names]
    rows = [",".join([*names, "species"])]
    for values, label in zip(irises.data, irises.target, strict=True):
        rows.append(",".join([*(f"{value:g}" for value in values), str(irises.target_names[label])]))
    path = work / "iris.csv"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def _check_utf8(path: Path) -> None:
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise InputError(f"{str(path)!a} is not a name in UTF-8: rename it") from None
