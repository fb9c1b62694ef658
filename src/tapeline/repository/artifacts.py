"""Look at the names of models under `artifacts:` of `dvc.yaml`, by which GTO, DVC and the registry find them.

`dvc artifacts get` and `tapeline registry register` fail for a path that nobody has; nothing else reads it before.
"""

import os
import posixpath
from collections.abc import Collection, Iterator, Mapping

from tapeline.config.project import DVC_YAML, Project
from tapeline.parsing import yaml_text
from tapeline.repository.ignored import tracked
from tapeline.runtime import files
from tapeline.runtime.errors import InputError


def mistakes(project: Project, pipelines: Collection[str], made: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with an artifact, and the remedy. made: the outputs of all stages, relative to the project.

    A path may also be a file's or folder's that Git tracks or `dvc add` has added. Raises `InputError` for a `dvc.yaml`
    that is not YAML.
    """
    for name, entry in _entries(project).items():
        path = entry.get("path") if isinstance(entry, Mapping) else None
        remedy = f"write `path: models/{name}`" if name in pipelines else "write the output of a stage, or remove it"
        if not isinstance(path, str):
            yield f"artifact {name} of {DVC_YAML} has no path", remedy
        elif name in pipelines and posixpath.normpath(path) != f"models/{name}":
            yield f"artifact {name} of {DVC_YAML} has the path {path}, which is not what its pipeline exports", remedy
        elif not _is_kept(project, path, made):
            there = "" if os.path.lexists(project.folder / path) else " and does not exist"
            yield (
                f"artifact {name} of {DVC_YAML} has the path {path}, which is not an output of any stage{there}",
                remedy,
            )


def _entries(project: Project) -> Mapping[str, object]:
    try:
        content = yaml_text.parsed(files.read_bytes(project.folder / DVC_YAML))
    except FileNotFoundError:  # named by itself
        return {}
    except yaml_text.NotYaml as error:
        raise InputError(f"{DVC_YAML}{error.where} is not YAML: {error}") from None
    entries = content.get("artifacts") if isinstance(content, Mapping) else None
    return entries if isinstance(entries, Mapping) else {}


def _is_kept(project: Project, path: str, made: Collection[str]) -> bool:
    """Return whether it is in an output, in a file or folder that DVC has, or tracked by Git."""
    parts = posixpath.normpath(path).split("/")
    above = ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]
    if any(one in made or os.path.lexists(project.folder / f"{one}.dvc") for one in above if one):
        return True
    return os.path.lexists(project.folder / path) and bool(tracked(project, [path]))
