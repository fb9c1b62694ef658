"""Small answers that are a function of some content, kept in the user's cache folder: `$XDG_CACHE_HOME/tapeline`.

    digest = user_cache.remembered("code", key, compute)     # computes once for each key

Only this user may be able to write there, for what is found is believed. Where that is not so, or nothing can be
written, the answer is computed each time.
"""

import os
import re
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

KEPT = 200
"""How many answers of a kind are kept, the newest."""

LONGEST = 256
"""Characters of an answer, which is printable text in one line."""

ANSWER = re.compile(r"[ -~]+")


def remembered(kind: str, key: str, compute: Callable[[], str]) -> str:
    """Return what `compute` returned for this key before, else what it returns now.

    kind, key: parts of a file name. The key must cover all that the answer depends on.
    """
    folder = _private(kind)
    if folder is None:
        return compute()
    known = _read(folder / key)
    if known is not None:
        return known
    answer = compute()
    if len(answer) <= LONGEST and ANSWER.fullmatch(answer):
        with suppress(OSError):
            _write(folder, key, answer)
    return answer


def _private(kind: str) -> Path | None:
    """Return the folder for a kind, made if need be; None if another user could write there, or it cannot be made."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 - that of a Path raises
    if not Path(home).is_absolute():
        return None
    top = Path(home) / "tapeline"
    try:
        for folder in (top, top / kind):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _is_ours(folder.lstat(), stat.S_IFDIR):
                return None
    except OSError:
        return None
    return top / kind


def _is_ours(found: os.stat_result, kind: int) -> bool:
    """Return whether it is of this kind, this user's, and nobody else can write it."""
    writable = stat.S_IWGRP | stat.S_IWOTH
    return stat.S_IFMT(found.st_mode) == kind and found.st_uid == os.geteuid() and not found.st_mode & writable


def _read(path: Path) -> str | None:
    with suppress(OSError, UnicodeDecodeError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            if _is_ours(os.fstat(descriptor), stat.S_IFREG):
                text = file.read(LONGEST + 1).decode("ascii")
                return text if len(text) <= LONGEST and ANSWER.fullmatch(text) else None
    return None


def _write(folder: Path, key: str, answer: str) -> None:
    with tempfile.NamedTemporaryFile("w", dir=folder, prefix=".", delete=False) as file:  # 0600
        file.write(answer)
    Path(file.name).replace(folder / key)
    ages = sorted((path.lstat().st_mtime, path) for path in folder.iterdir())
    for _, path in ages[:-KEPT]:
        path.unlink()
