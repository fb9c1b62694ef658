"""Writing that leaves the old thing or the new thing, never a half; and hashing.

with files.replacing(Path("models/digits")) as folder:   # write into `folder`; renamed on success
    ...
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PARTIAL = ".partial"


def sha256(path: Path) -> str:
    """Return the hexadecimal SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_of_files(paths: Iterable[Path]) -> str:
    """Return one SHA-256 over several files' names and contents, in the order given."""
    lines = [f"{path.name} {sha256(path)}\n" for path in paths]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def sha256_of_tree(path: Path) -> str:
    """Return one SHA-256 over a file, or over every file below a folder: relative names and contents.

    Raises `FileNotFoundError` when nothing is there.
    """
    if not path.is_dir():
        return sha256(path)
    inside = sorted((file.relative_to(path).as_posix(), file) for file in path.rglob("*") if file.is_file())
    lines = [f"{name} {sha256(file)}\n" for name, file in inside]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def canonical_json(value: Any) -> str:
    """Return JSON whose bytes depend on the value only: sorted keys, two spaces, a final newline."""
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"


def sync(path: Path) -> None:
    """Flush one file or folder to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(folder: Path) -> None:
    """Flush every file and folder below and including `folder`."""
    for path in (*folder.rglob("*"), folder):
        sync(path)


def write_bytes(path: Path, content: bytes) -> None:
    """Write `content` beside `path`, flush it, and rename it into place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}{PARTIAL}")
    try:
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
    sync(path.parent)


def write_text(path: Path, content: str) -> None:
    """Write UTF-8 text with `write_bytes`."""
    write_bytes(path, content.encode())


def write_json(path: Path, value: Any) -> None:
    """Write `canonical_json(value)` with `write_bytes`."""
    write_text(path, canonical_json(value))


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """Yield an empty folder beside `folder`; on success it takes its place, on failure it is removed.

    Between the two renames neither the old nor the new folder is there; no half ever is.
    """
    partial = folder.with_name(f".{folder.name}{PARTIAL}")
    old = folder.with_name(f".{folder.name}.old{PARTIAL}")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        yield partial
        sync_tree(partial)
        shutil.rmtree(old, ignore_errors=True)
        if folder.exists():
            folder.rename(old)  # removing it here file by file could be cut half-way
        partial.rename(folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        if old.exists() and not folder.exists():
            old.rename(folder)
        raise
    sync(folder.parent)
    shutil.rmtree(old, ignore_errors=True)
