"""The objects of DVC's cache: where each is, and the list of a folder's files."""

import hashlib
from pathlib import Path, PurePosixPath

from tapeline.parsing import json_text
from tapeline.repository.dvc_lock import LOCK, MD5
from tapeline.runtime.errors import InputError


def place(md5: str) -> Path:
    """Return an object's path in the cache, there or not. Raises `InputError` for what would lead elsewhere."""
    if not MD5.fullmatch(md5):
        raise InputError(f"{md5!r} is not an MD5: {LOCK}, or a folder's list in the cache, was altered")
    return Path(md5[:2], md5[2:])


def listing(content: bytes, md5: str) -> dict[str, str]:
    """Return the MD5 of each file of a folder, by relative path, from the content of the object `md5`.

    Raises `ValueError` for what is no such list, `InputError` for a path that leaves the folder or is in a file.
    """
    try:
        entries = json_text.parsed(content)
        found = {safe(str(entry["relpath"])): str(entry["md5"]) for entry in entries}
    except (KeyError, TypeError) as error:
        raise ValueError(str(error)) from None
    for name in found:
        if above := [one for one in map(str, PurePosixPath(name).parents) if one in found]:
            raise InputError(f"{md5} has {above[0]!r} as a file and as a folder: the list was altered")
    return found


def md5_of(path: Path) -> str:
    """Return the MD5 of a file's bytes, as DVC computes it."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def check(path: Path, md5: str) -> None:
    """Raise `InputError` unless a file of the cache has the bytes of the object `md5`."""
    if md5_of(path) != md5.removesuffix(".dir"):
        raise InputError(f"{path} was altered: its MD5 does not match its name; delete it and fetch it again")


def safe(path: str) -> str:
    """Return a relative path that stays in its folder, as DVC writes it. Raises `InputError` for any other."""
    parts = PurePosixPath(path)
    if (
        parts.is_absolute()
        or not parts.parts
        or parts.as_posix() != path
        or ".." in parts.parts
        or "\\" in path
        or "\0" in path
    ):
        raise InputError(f"{path!r} leads out of its folder: the record was altered")
    return path
