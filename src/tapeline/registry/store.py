"""The bytes of a version: from DVC's cache, else fetched from the remote, and always checked."""

import atexit
import errno
import os
import secrets
import shutil
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tapeline.repository import objects, places
from tapeline.repository.dvc_errors import check_dependencies, check_files, in_one_line
from tapeline.repository.dvc_lock import LOCK
from tapeline.repository.objects import md5_of
from tapeline.runtime import files, processes, scratch
from tapeline.runtime.errors import InputError, RunError

if TYPE_CHECKING:
    from tapeline.repository.dvc.repository import Dvc, Remote


class Missing(InputError):
    """An object is neither in the cache nor in a remote."""


class Store:
    """DVC's cache and default remote of a project, opened on first use (half a second)."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def open(self) -> None:
        """Open DVC now. Raises `InputError` where it cannot be opened, such as for an invalid `.dvc/config`."""
        _ = self._dvc

    def listing(self, md5: str) -> dict[str, str]:
        """Return the MD5 of each file in a recorded folder, by relative path; for a single file, under the empty path.

        Fetches the listing from the remote if needed. Raises `InputError` for missing or altered bytes, and for a path
        that leaves the folder.
        """
        if not md5.endswith(".dir"):
            return {"": md5}
        try:
            return objects.listing(self.bring(md5).read_bytes(), md5)
        except ValueError:
            raise InputError(f"{md5} is not a list of a folder's files: {LOCK} was altered") from None

    def bring(self, md5: str) -> Path:
        """Return the cached file of one object, fetched from the remote if the cache lacks it. Its bytes are checked.

        Raises `InputError` if neither has it, or if its bytes were altered.
        """
        path = self.path(md5)
        if not path.is_file():
            self._download(md5, path)
        else:
            objects.check(path, md5)
        return path

    def path(self, md5: str) -> Path:
        """Return an object's path in the cache, whether it exists or not.

        Where this user may not write, what the cache lacks is in a temporary folder.
        """
        place = objects.place(md5)
        path = self._dvc.cache / place
        return path if path.is_file() or places.may_write(path) else self._dvc.aside / place

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
            return [part for part in (md5, *self.listing(md5).values()) if not remote.has(part)]

    def check(self, md5: str, sums: Mapping[str, str]) -> None:
        """Raise `InputError` unless a recorded folder has exactly these files. sums: SHA-256 by relative path."""
        for name, part in self._listing_as(md5, sums).items():
            _check_sum(name, files.sha256(self.bring(part)), sums[name])

    def write(self, md5: str, folder: Path, *, below: str = "", sums: Mapping[str, str] | None = None) -> None:
        """Copy a recorded folder's files whose paths start with `below`, checking each copy.

        folder: must be empty. sums: the SHA-256 that each file must have. Raises `InputError` as `listing`, `bring` and
        `check` do.
        """
        for name, part in (self.listing(md5) if sums is None else self._listing_as(md5, sums)).items():
            if not name.startswith(below):
                continue
            target = folder / name.removeprefix(below)
            target.parent.mkdir(parents=True, exist_ok=True)
            source = self.bring(part)
            shutil.copyfile(source, target)
            if md5_of(target) != part:
                raise RunError(f"{target} differs from what was copied into it: the disk or the memory is faulty")
            if sums is not None:
                _check_sum(name, files.sha256(target), sums[name])

    def _listing_as(self, md5: str, sums: Mapping[str, str]) -> dict[str, str]:
        """Return a folder's listing if it has the files of `sums`. Raises `InputError` for more or fewer."""
        listing = self.listing(md5)
        if other := sorted(listing.keys() ^ sums.keys()):
            raise InputError(
                f"{other[0]!r} is {'no file' if other[0] in listing else 'a file'} of what was registered: the list "
                f"{md5} was replaced by another with the same MD5"
            )
        return listing

    def kept(self, md5: str, folder: Path, *, sums: Mapping[str, str] | None = None) -> Path:
        """Return `folder` with exactly the files of a recorded folder, copying them if needed. sums: as in `write`.

        Concurrent callers copy once. The folder's mtime is its last use, which `tapeline prune` reads. Where this user
        may not write, and `folder` is not as it should be, the copy is a temporary one, which goes with this process.
        """
        try:
            self._keep(md5, folder, sums)
        except OSError as error:
            if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
                raise
            return folder if self._is_right(folder, md5, sums) else self._lent(md5, sums)
        return folder

    def _keep(self, md5: str, folder: Path, sums: Mapping[str, str] | None) -> None:
        lock = folder.with_name(f"{folder.name}.lock")
        if lock.is_symlink() or not lock.is_file():
            files.discard(lock)
        with processes.exclusive(lock, waiting=_nothing):
            if folder.is_symlink() or not folder.is_dir():
                files.discard(folder)
            for ending in ("", ".old"):
                files.discard(folder.with_name(f".{folder.name}{ending}{files.PARTIAL}"))
            if not self._is_right(folder, md5, sums):
                with files.replacing(folder) as partial:
                    self.write(md5, partial, sums=sums)
            os.utime(folder)

    def _lent(self, md5: str, sums: Mapping[str, str] | None) -> Path:
        until_the_end = ExitStack()
        atexit.register(until_the_end.close)
        folder = until_the_end.enter_context(scratch.folder("model"))
        self.write(md5, folder, sums=sums)
        return folder

    def _is_right(self, folder: Path, md5: str, sums: Mapping[str, str] | None) -> bool:
        if folder.is_symlink() or not folder.is_dir():
            return False
        found = {p.relative_to(folder).as_posix(): md5_of(p) for p in folder.rglob("*") if p.is_file()}
        return found == self.listing(md5) and (sums is None or has_sums(folder, sums))

    def _download(self, md5: str, path: Path) -> None:
        remote = self._remote()
        if remote is None:
            raise Missing(
                f"DVC's object {md5} is missing and no DVC remote is set: set the remote that has it, or run "
                "`dvc repro` on the commit that recorded it"
            )
        # Whoever shares the cache could put a link in the place of a name that can be guessed.
        partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}{files.PARTIAL}")
        with _one_line(f"the remote has no object {md5}: `dvc push` where it was made"):
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                remote.fetch(md5, partial)
                if md5_of(partial) != md5.removesuffix(".dir"):
                    raise InputError(
                        f"the remote's object {md5} was altered: its MD5 does not match its name; delete it there and "
                        "`dvc push` where it was made"
                    )
                partial.replace(path)
            finally:
                partial.unlink(missing_ok=True)

    def _remote(self) -> "Remote | None":
        """Return the default remote; None if none is set. Raises `InputError` for an invalid setting."""
        from tapeline.repository.dvc.exceptions import DvcException

        try:
            return self._dvc.remote()
        except (DvcException, ImportError) as error:
            raise InputError(f"the DVC remote cannot be used: {' '.join(str(error).split())}") from None

    @cached_property
    def _dvc(self) -> "Dvc":
        from tapeline.repository.dvc.repository import Dvc

        with in_one_line(InputError):
            opened = Dvc(self._folder, only_read=True)
            weakref.finalize(self, opened.close)
        return opened

    def ignores(self, path: Path) -> bool:
        """Return whether `.dvcignore` excludes a file from the folders that DVC records."""
        return self._dvc.ignores(path)

    def stale(self, name: str) -> str:
        """Return the first stage of the model's chain that `dvc repro` would run, and why; empty if none."""
        check_files(self._folder)
        with in_one_line(InputError):
            check_dependencies(self._dvc.stages())
            status = self._dvc.status(self._folder / "dvc.yaml", f"export@{name}")
        return first_stale(status)


def first_stale(status: Mapping[str, Sequence[Any]]) -> str:
    """Return the first stage of an answer of `dvc status`, and why it is stale; empty if none is."""
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


def has_sums(folder: Path, sums: Mapping[str, str]) -> bool:
    """Return whether each of these files is in a folder with its SHA-256."""
    return all(
        (folder / objects.safe(name)).is_file() and files.sha256(folder / name) == said for name, said in sums.items()
    )


def _check_sum(name: str, found: str, said: str) -> None:
    if found != said:
        raise InputError(
            f"{name or 'the file'} is not what was registered, although its MD5 is: its SHA-256 is {found[:12]}…, the "
            f"tag says {said[:12]}…; delete it from DVC's cache and remote, and push it again from where it was made"
        )


@contextmanager
def _one_line(what: str) -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except FileNotFoundError:
        raise Missing(what) from None
    except Exception as error:  # the remote's library may raise anything
        if isinstance(error, OSError) and error.errno in files.DISK_ERRORS:
            raise
        raise RunError(f"{what} ({type(error).__name__}: {' '.join(str(error).split())})") from None
