"""Rebuild a project's stages in a clone, and compare outputs with what a `dvc.lock` records."""

import os
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tapeline.config.project import Project
from tapeline.repository import dvc_call, objects
from tapeline.repository.dvc_errors import ERROR, error_line, in_one_line
from tapeline.repository.dvc_lock import LOCK, Lock
from tapeline.repository.git import Git
from tapeline.repository.places import dvc_left_out, dvc_top
from tapeline.repository.shared_cache import share_cache
from tapeline.runtime import files
from tapeline.runtime.errors import InputError, RunError
from tapeline.runtime.interpreter import with_this_code


@dataclass(frozen=True)
class Out:
    """One output of a stage: its path in the project's folder and its hash in a `dvc.lock`."""

    path: str
    md5: str


def clone(project: Project, into: Path) -> Path:
    """Clone HEAD, have DVC there use the project's cache and remotes, and return the project's folder in the clone.

    A partial clone fetches first what it lacks of HEAD. Raises `InputError` where there is no DVC, or one that Git does
    not have, and `RunError` if that fails.
    """
    git = Git(project.folder)
    top, own = git.top(), dvc_top(project.folder)
    if remedy := dvc_left_out(project.folder):
        raise InputError(f"Git has the folder .dvc, but this checkout lacks it: {remedy}")
    if own is None or not own.resolve().is_relative_to(top):
        raise InputError(f"{project.folder} has no DVC repository inside its Git repository: `tapeline init` makes one")
    if git.ask("config", "--get-regexp", r"^remote\..*\.promisor$"):  # from which the new clone could not fetch
        git("diff-tree", "--shortstat", git("hash-object", "-t", "tree", "--stdin"), "HEAD")  # reads every file
    git("clone", "--quiet", "--no-hardlinks", str(top), str(into))
    with in_one_line():
        share_cache(own / ".dvc", into / own.resolve().relative_to(top) / ".dvc")
    return into / project.folder.resolve().relative_to(top)


def locked(folder: Path, text: bytes | None, stages: set[str]) -> dict[str, Out]:
    """Return the stages' recorded outputs by path, from a lock's `text`, or from `folder/dvc.lock` if it is None."""
    lock = Lock.read(text if text is not None else files.read_bytes(folder / LOCK))
    outs = (out for name, stage in lock.stages.items() if name in stages for out in stage.outs)
    return {out.path: Out(out.path, str(out.md5)) for out in outs}


class Cached:
    """The recorded content of an output, in DVC's cache."""

    def __init__(self, folder: Path) -> None:
        from tapeline.repository.dvc.repository import Dvc

        with in_one_line(), closing(Dvc(folder, only_read=True)) as opened:
            self._cache = opened.cache

    def __call__(self, out: Out) -> Path | None:
        """Return the cached file, or the listing of a folder; None if the cache has lost it."""
        path = self.place(out.md5)
        return path if path.exists() else None

    def place(self, md5: str) -> Path:
        """Return where the cache has, or would have, a file. Raises `InputError` for what would lead elsewhere."""
        return self._cache / objects.place(md5)

    def listed(self, out: Out) -> dict[str, Path]:
        """Return a folder's cached files by relative path."""
        listing = self(out)
        try:
            found = objects.listing(files.read_bytes(listing), out.md5) if listing else {}
        except ValueError:
            raise InputError(f"{listing} is not a list of a folder's files: delete it and run `dvc fetch`") from None
        return {name: self.place(md5) for name, md5 in found.items()}


def first_difference(out: Out, wanted_file: Callable[[Out], Path | None], folder: Path) -> str:
    """Return the first file of an output that differs, and the byte range."""
    rebuilt = folder / out.path
    wanted = wanted_file(out)
    if wanted is None:
        return f"{out.path} differs; where is unknown, as its recorded bytes are not in the cache: run `dvc pull`"
    if out.md5.endswith(".dir") and isinstance(wanted_file, Cached):
        recorded = wanted_file.listed(out)
    elif wanted.is_dir():
        recorded = {path.relative_to(wanted).as_posix(): path for path in wanted.rglob("*") if path.is_file()}
    else:
        recorded = {"": wanted}
    if rebuilt.is_file():
        here = {""}
    else:
        here = {path.relative_to(rebuilt).as_posix() for path in rebuilt.rglob("*") if path.is_file()}
    for name in sorted(recorded.keys() | here):
        label = f"{out.path}/{name}" if name else out.path
        if name not in recorded or name not in here:
            return f"{label} is only in {'the rebuild' if name in here else 'the record'}"
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


def dvc(folder: Path, *arguments: str) -> str:
    """Run DVC with this interpreter's folder first in PATH, so that the stages use its `tapeline`, with this code.

    Returns what it prints. Raises `RunError` with its last error. No command of a stage outlives this process, not even
    one of another program, which knows nothing of a parent's death.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | with_this_code()
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment.get('PATH', '')}"
    answer = dvc_call.called(folder, *arguments, env=environment)
    if answer.returncode:
        said = answer.stderr.strip() or answer.stdout.strip()
        last = said[max(said.rfind(f"\n{ERROR}"), 0) :]
        raise RunError(f"dvc {arguments[0]} in {folder}: {error_line(last)}")
    return answer.stdout
