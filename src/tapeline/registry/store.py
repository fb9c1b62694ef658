"""The bytes of a version: from DVC's cache, else fetched from the remote, and always checked."""

import hashlib
import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from tapeline.parsing import json_text
from tapeline.repository.dvc_errors import check_dependencies, check_files, in_one_line
from tapeline.repository.dvc_lock import LOCK, MD5
from tapeline.runtime import files, processes
from tapeline.runtime.errors import InputError, RunError


class Store:
    """DVC's cache and default remote of a project, opened on first use (half a second)."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._opened: Any = None

    def listing(self, md5: str) -> dict[str, str]:
        """Return the MD5 of each file in a recorded folder, by relative path; for a single file, under the empty path.

        Fetches the listing from the remote if needed. Raises `InputError` for missing or altered bytes, and for a path
        that leaves the folder.
        """
        if not md5.endswith(".dir"):
            return {"": md5}
        try:
            entries = json_text.parsed(self.bring(md5).read_bytes())
            return {safe(str(entry["relpath"])): str(entry["md5"]) for entry in entries}
        except (ValueError, KeyError, TypeError):
            raise InputError(f"{md5} is not a list of a folder's files: {LOCK} was altered") from None

    def bring(self, md5: str) -> Path:
        """Return the cached file of one object, fetched from the remote if the cache lacks it. Its bytes are checked.

        Raises `InputError` if neither has it, or if the cached file was altered.
        """
        path = self.path(md5)
        if not path.is_file():
            self._download(md5, path)
        if md5_of(path) != md5.removesuffix(".dir"):
            raise InputError(f"{path} was altered: its MD5 is not its name; delete it and run `dvc fetch`")
        return path

    def path(self, md5: str) -> Path:
        """Return an object's path in the cache, whether it exists or not."""
        if not MD5.fullmatch(md5):
            raise InputError(f"{md5!r} is not an MD5: dvc.lock was altered")
        return Path(self._repo.cache.local.path) / md5[:2] / md5[2:]

    def missing(self, md5: str) -> list[str]:
        """Return the objects of an output that the cache lacks."""
        if not self.path(md5).is_file():
            return [md5]
        return [part for part in self.listing(md5).values() if not self.path(part).is_file()]

    def missing_in_remote(self, md5: str) -> list[str]:
        """Return the objects of a cached output that the default remote lacks; empty if no remote is set."""
        remote = self._remote()
        if remote is None:
            return []
        with _one_line("the remote does not answer"):
            return [part for part in (md5, *self.listing(md5).values()) if not remote.exists(part)]

    def write(self, md5: str, folder: Path, *, below: str = "") -> None:
        """Copy a recorded folder's files whose paths start with `below`, checking each copy.

        folder: must be empty. Raises `InputError` as `listing` and `bring` do.
        """
        for name, part in self.listing(md5).items():
            if not name.startswith(below):
                continue
            target = folder / name.removeprefix(below)
            target.parent.mkdir(parents=True, exist_ok=True)
            source = self.bring(part)
            target.write_bytes(source.read_bytes())
            if md5_of(target) != part:
                raise RunError(f"{target} is not what was copied into it: the disk or its memory is faulty")

    def kept(self, md5: str, folder: Path) -> Path:
        """Return `folder` with exactly the files of a recorded folder, copying them if needed.

        Concurrent callers copy once. The folder's mtime is its last use, which `tapeline prune` reads.
        """
        with processes.exclusive(folder.with_name(f"{folder.name}.lock"), waiting=_nothing):
            if not self._holds(folder, md5):
                with files.replacing(folder) as partial:
                    self.write(md5, partial)
            os.utime(folder)
        return folder

    def _holds(self, folder: Path, md5: str) -> bool:
        if not folder.is_dir():
            return False
        found = {p.relative_to(folder).as_posix(): md5_of(p) for p in folder.rglob("*") if p.is_file()}
        return found == self.listing(md5)

    def _download(self, md5: str, path: Path) -> None:
        remote = self._remote()
        if remote is None:
            raise InputError(f"{path} is missing and no DVC remote is set: `dvc repro` makes it again")
        partial = path.with_name(f".{path.name}.{os.getpid()}{files.PARTIAL}")
        with _one_line(f"the remote has no object {md5}: `dvc push` where it was made"):
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                remote.fs.get_file(remote.oid_to_path(md5), str(partial))
                partial.replace(path)
            finally:
                partial.unlink(missing_ok=True)

    def _remote(self) -> Any:
        """Return the default remote's objects; None if no remote is set. Raises `InputError` for an invalid setting."""
        from dvc.config import NoRemoteError
        from dvc.exceptions import DvcException

        try:
            return self._repo.cloud.get_remote_odb()
        except NoRemoteError:
            return None
        except (DvcException, ImportError) as error:
            raise InputError(f"the DVC remote cannot be used: {' '.join(str(error).split())}") from None

    @property
    def _repo(self) -> Any:
        if self._opened is None:
            from dvc.repo import Repo

            with in_one_line(InputError):
                self._opened = Repo(str(self._folder))
                weakref.finalize(self, self._opened.close)
        return self._opened

    def ignores(self, path: Path) -> bool:
        """Return whether `.dvcignore` excludes a file from the folders that DVC records."""
        return bool(self._repo.dvcignore.is_ignored_file(str(path)))

    def stale(self, name: str) -> str:
        """Return the first stage of the model's chain that `dvc repro` would run, and why; empty if none."""
        check_files(self._folder)
        with in_one_line(InputError):
            check_dependencies(self._repo.index.stages)
            target = f"{self._folder / 'dvc.yaml'}:export@{name}"
            status = self._repo.status(targets=[target], with_deps=True)
        for stage, entries in status.items():
            for entry in entries:
                if isinstance(entry, str):
                    return f"{stage} is stale ({entry})"
                for kind, changes in entry.items():
                    path, change = next(iter(changes.items()))
                    return f"{stage} is stale ({kind}: {path} is {change if isinstance(change, str) else 'changed'})"
        return ""


def _nothing(_line: str) -> None:
    """Report nothing: a copy takes only moments."""


def safe(path: str) -> str:
    """Return a relative path that stays in its folder. Raises `InputError` for any other."""
    parts = PurePosixPath(path)
    if parts.is_absolute() or not path or ".." in parts.parts or "\\" in path or "\0" in path:
        raise InputError(f"{path!r} would leave its folder: the record was altered")
    return path


def md5_of(path: Path) -> str:
    """Return the MD5 of a file's bytes, as DVC computes it."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


@contextmanager
def _one_line(what: str) -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(what) from None
    except Exception as error:  # the remote's library may raise anything
        raise RunError(f"{what} ({type(error).__name__}: {' '.join(str(error).split())})") from None
