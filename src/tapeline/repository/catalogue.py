"""The file that a dataset of the TFDS catalogue `needs`: its name and version in one line, for DVC to depend on.

    datasets:
      mnist: {source: tfds, needs: data/raw/mnist.tfds, name: "mnist:3.0.1"}

`params.yaml` says what is read, and `tapeline lock` writes the file accordingly. It is committed.
"""

from collections.abc import Iterator
from pathlib import Path

from tapeline.config.ingest import IngestSettings, TfdsSource
from tapeline.config.params import Params
from tapeline.runtime import files
from tapeline.runtime.errors import InputError

SUFFIX = ".tfds"


def write(folder: Path, params: Params) -> list[Path]:
    """Write the files of all datasets of the catalogue, and return those that were missing or had another name.

    Raises `InputError`, with nothing written, if two datasets of different names need the same file.
    """
    other = list(_other(folder, params))
    for path, text in other:
        files.write_text(path, text)
    return [path for path, _ in other]


def changed(folder: Path, params: Params) -> list[Path]:
    """Return the files that `write` would write. Raises `InputError` as it does."""
    return [path for path, _ in _other(folder, params)]


def check(folder: Path, name: str, settings: IngestSettings) -> None:
    """Raise `InputError` if a dataset's file is missing, or names another dataset than `params.yaml`."""
    if (found := _file(folder, settings)) is None:
        return
    path, text = found
    if (has := _content(path)) != text:
        state = "does not exist" if has is None else f"has {has.strip()!r}"
        raise InputError(f"{path.relative_to(folder)} {state}, datasets.{name} reads {text.strip()}: `tapeline lock`")


def _other(folder: Path, params: Params) -> Iterator[tuple[Path, str]]:
    first: dict[Path, tuple[str, str]] = {}
    for name, settings in params.datasets.items():
        if (found := _file(folder, settings)) is None:
            continue
        path, text = found
        other, said = first.setdefault(path.resolve(), (name, text))
        if said != text:
            raise InputError(
                f"datasets.{other} reads {said.strip()} and datasets.{name} {text.strip()}, but both need "
                f"{settings.needs}: give each its own file"
            )
        if _content(path) != text:
            yield found


def _file(folder: Path, settings: IngestSettings) -> tuple[Path, str] | None:
    """Return a dataset's file inside the project and its content; None for one that needs something else."""
    if not isinstance(settings, TfdsSource) or not settings.needs.endswith(SUFFIX):
        return None
    path = folder / settings.needs
    if not path.resolve().is_relative_to(folder.resolve()):
        raise InputError(f"needs is {settings.needs}: keep the .tfds file of a catalogue dataset inside the project")
    return path, f"{settings.name}\n"


def _content(path: Path) -> str | None:
    try:
        return files.read_bytes(path).decode(errors="replace")
    except FileNotFoundError:
        return None
