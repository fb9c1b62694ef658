"""Write atomically (the old content or the new, never a half), read and write regular files only, and hash.

with files.replacing(Path("models/digits")) as folder:   # write into `folder`; renamed on success
    ...
"""

import errno
import fcntl
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO

from tapeline.runtime.errors import InputError

PARTIAL = ".partial"
STATE = ".tapeline"
"""A state folder's name: what is in it belongs to one checkout on one machine."""
DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.EACCES)
"""The disk is at fault: full, over quota, file too large, broken, read-only, no permission to write."""
NO_NAME = (errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR)
"""The name is at fault: too long, a link to itself, below a file."""
NO_FILE = "{} is a FIFO, a socket or a device, not a file: give a file, or remove it"
LFS_POINTER = b"version https://git-lfs.github.com/spec/"
NO_CONTENT = "{} is a pointer of Git LFS, not the file itself: run `git lfs pull`"
NOT_OURS = "{} is a link, a folder, a FIFO or the like, not a regular file that Tapeline wrote: remove it"


def opened(path: Path | str) -> BufferedReader:
    """Open a regular file for reading. Raises `InputError` for a FIFO (which would block), a socket or a device."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except ValueError as error:  # a null byte
        raise InputError(f"{path} is not a file name: {error}") from None
    except OSError as error:
        if error.errno in NO_NAME:
            raise InputError(f"{path} is not a file name: {error.strerror}") from None
        if error.errno not in (errno.ENXIO, errno.ENODEV):  # a socket; a device that is not there
            raise
        raise InputError(NO_FILE.format(path)) from None
    kind = os.fstat(descriptor).st_mode
    if stat.S_ISREG(kind):
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise InputError(NO_FILE.format(path))


def own(path: Path, flags: int, mode: int = 0o666) -> int:
    """Open a file that is Tapeline's by its name, a lock or a half-written one, and return the descriptor.

    flags, mode: as of `os.open`. Raises `InputError` for a link, which may lead anywhere, and for what is no regular
    file: it would block. Raises `OSError` as `os.open` does for others.
    """
    try:
        descriptor = os.open(path, flags & ~os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.ENODEV):
            raise
        raise InputError(NOT_OURS.format(path)) from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise InputError(NOT_OURS.format(path))
    if flags & os.O_TRUNC:
        os.ftruncate(descriptor, 0)
    return descriptor


def locked(path: Path, flags: int, mode: int = 0o666, *, wait: bool = False) -> int:
    """Open a file as `own` does, take its lock, and return the descriptor: closing it releases the lock.

    A file that another process removed or renamed before the lock was taken is opened again. The kernel releases the
    lock when its holder ends, however it ends. Raises as `own` does, and `BlockingIOError` if it is held, unless
    `wait`.
    """
    while True:
        descriptor = own(path, flags, mode)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
            with suppress(FileNotFoundError):
                if os.path.samestat(path.lstat(), os.fstat(descriptor)):
                    return descriptor
        except BaseException as error:
            os.close(descriptor)
            if isinstance(error, OSError):
                error.filename = str(path)
            raise
        os.close(descriptor)


def discard(path: Path, *, ignore_errors: bool = True) -> None:
    """Remove what is left of a folder, or is in its place: `rmtree` alone would wait for a FIFO, or keep a link."""
    with suppress(OSError) if ignore_errors else nullcontext():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=ignore_errors)
        else:
            path.unlink(missing_ok=True)


def read_bytes(path: Path) -> bytes:
    """Return a regular file's content. Raises `InputError` as `opened` does."""
    with opened(path) as file:
        return file.read()


def is_pointer(content: bytes) -> bool:
    """Return whether a file's content is that of a Git LFS pointer, which stands for a file that was not downloaded."""
    return content.startswith(LFS_POINTER)


def refuse_pointer(path: Path) -> None:
    """Raise `InputError` for a Git LFS pointer in place of a file."""
    if path.is_file():
        with opened(path) as file:
            if is_pointer(file.read(len(LFS_POINTER))):
                raise InputError(NO_CONTENT.format(path))


def check_tree(path: Path) -> None:
    """Raise `InputError` for a FIFO, a socket or a device at or below a path: reading it would block."""
    for one in (path, *path.rglob("*")) if path.is_dir() else (path,):
        if one.exists() and not (one.is_file() or one.is_dir()):
            raise InputError(NO_FILE.format(one))


def sha256(path: Path) -> str:
    """Return the hexadecimal SHA-256 of a file's bytes. Raises `InputError` as `opened` does."""
    with opened(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_of_files(paths: Iterable[Path]) -> str:
    """Return one SHA-256 over the names and contents of several files, in the given order."""
    return _sha256_of_named((path.name, path) for path in paths)


def sha256_of_tree(path: Path) -> str:
    """Return one SHA-256 over a file, or over every file below a folder: relative names and contents.

    Raises `FileNotFoundError` if `path` does not exist, and `InputError` as `check_tree` does.
    """
    check_tree(path)
    if not path.is_dir():
        return sha256(path)
    return _sha256_of_named(
        sorted((file.relative_to(path).as_posix(), file) for file in path.rglob("*") if file.is_file())
    )


def _sha256_of_named(named: Iterable[tuple[str, Path]]) -> str:
    lines = "".join(f"{name} {sha256(file)}\n" for name, file in named)
    return hashlib.sha256(lines.encode(errors="surrogateescape")).hexdigest()  # a name may be any bytes


def canonical_json(value: Any) -> str:
    """Return JSON whose bytes depend only on the value: sorted keys, two spaces, a final newline."""
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"


def sync(path: Path) -> None:
    """Flush one file or folder to disk. Some file systems, SMB for instance, cannot flush a folder: it is left then."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EBADF) or not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise
    finally:
        os.close(descriptor)


def sync_tree(folder: Path) -> None:
    """Flush `folder` and every file and folder below it to disk; what is neither has no content."""
    for path in (*reversed(list(folder.rglob("*"))), folder):  # a file's flush often brings its folder's along
        if stat.S_IFMT(path.lstat().st_mode) in (stat.S_IFREG, stat.S_IFDIR):
            sync(path)


def make_folder(folder: Path) -> None:
    """Create a folder and its parents; flush the directory entry of each new one to disk.

    A new state folder keeps itself out of Git: no clone has what was written into it elsewhere.

    Raises `NotADirectoryError` where a file is in the way, or a link to nothing.
    """
    new = [path for path in (folder, *folder.parents) if not os.path.lexists(path)]
    there = new[-1].parent if new else folder
    if not there.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(there))
    for path in reversed(new):
        if path.name == STATE:
            _make_state(path)
        else:
            path.mkdir(exist_ok=True)
        sync(path.parent)


def _make_state(folder: Path) -> None:
    """Create a state folder that is never there without its `.gitignore`, wherever a process is killed."""
    made = folder.with_name(f"{STATE}.{os.urandom(4).hex()}{PARTIAL}")
    try:
        made.mkdir()
        write_text(made / ".gitignore", "*\n")
        made.rename(folder)
    except OSError as error:
        if not folder.is_dir():  # else another process was faster
            error.filename = str(folder)
            raise
    finally:
        discard(made)


def write_bytes(path: Path, content: bytes) -> None:
    """Write `content` to a temporary file next to `path`, flush it, and rename it into place. Others wait meanwhile.

    Raises `InputError` for a FIFO, a socket or a device, and as `own` does for the temporary file, and
    `IsADirectoryError` if `path` is a folder. A link is replaced, and what it leads to stays.
    """
    make_folder(path.parent)
    with suppress(FileNotFoundError):
        if stat.S_IFMT(path.lstat().st_mode) not in (stat.S_IFREG, stat.S_IFLNK, stat.S_IFDIR):
            raise InputError(NO_FILE.format(path))
    partial = path.with_name(f".{path.name}{PARTIAL}")
    with _alone(partial) as file:
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            partial.replace(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
    sync(path.parent)


@contextmanager
def _alone(partial: Path) -> Iterator[BinaryIO]:
    """Yield an empty file for writing that no other process or thread has: who comes later waits.

    Raises as `own` does.
    """
    with os.fdopen(locked(partial, os.O_WRONLY | os.O_CREAT, wait=True), "wb") as file:
        try:
            file.truncate(0)
            yield file
        finally:
            fcntl.flock(file, fcntl.LOCK_UN)  # a child forked meanwhile would hold it as long as it lives


def write_text(path: Path, content: str) -> None:
    """Write UTF-8 text with `write_bytes`."""
    write_bytes(path, content.encode())


def write_json(path: Path, value: Any) -> None:
    """Write `canonical_json(value)` with `write_bytes`."""
    write_text(path, canonical_json(value))


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """Yield an empty temporary folder next to `folder`: on success it replaces `folder`, on failure it is removed.

    Between the two renames neither the old nor the new folder exists; a half-written one never does. Who calls this
    holds a lock if others may replace the same folder meanwhile: all of them would write into one temporary folder.
    """
    partial = folder.with_name(f".{folder.name}{PARTIAL}")
    old = folder.with_name(f".{folder.name}.old{PARTIAL}")
    discard(partial)
    make_folder(folder.parent)
    partial.mkdir()
    try:
        yield partial
        sync_tree(partial)
        discard(old)
        if os.path.lexists(old):
            raise InputError(f"{old} is of an earlier run, perhaps another user's, and cannot be removed: remove it")
        if os.path.lexists(folder):
            folder.rename(old)  # deleting it here, file by file, could be interrupted half-way
        partial.rename(folder)
    except BaseException:
        discard(partial)
        if os.path.lexists(old) and not os.path.lexists(folder):
            old.rename(folder)
        raise
    sync(folder.parent)
    discard(old)
