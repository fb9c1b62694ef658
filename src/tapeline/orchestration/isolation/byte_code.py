"""Give a worktree the byte code of files that are the same in the checkout: else each isolated run compiles them."""

import importlib.util
from contextlib import suppress
from pathlib import Path

from tapeline.repository.git import Git
from tapeline.runtime import files

FLAGS, TIME, SIZE, CODE = slice(4, 8), slice(8, 12), slice(12, 16), slice(16, None)
"""Of a compiled file, after four bytes of Python's version: 0 where the source is named by time and size (PEP 552)."""


def share_byte_code(checkout: Path, worktree: Path) -> None:
    """Write byte code next to each file that Git tracks in `worktree` and that has byte code in `checkout`."""
    for name in Git(worktree)("ls-files", "-z", "--", "*.py").split("\0"):
        source, target = checkout / name, worktree / name
        if name and source.is_file() and target.is_file() and not target.is_symlink():
            with suppress(OSError):  # of another user who keeps it private: Python compiles the source
                _share(source, target)


def _share(source: Path, target: Path) -> None:
    """Write the byte code of `source`, if there is any that is up to date, for `target`, if that is the same source."""
    compiled, copy = (Path(importlib.util.cache_from_source(str(path))) for path in (source, target))
    if not compiled.is_file() or copy.parent.is_symlink() or copy.exists():  # the commit may have such things
        return
    content, code = files.read_bytes(source), files.read_bytes(compiled)
    current = code[:4] == importlib.util.MAGIC_NUMBER and code[FLAGS] == bytes(4)
    if current and code[TIME.start : SIZE.stop] == _stamp(source) and files.read_bytes(target) == content:
        copy.parent.mkdir(exist_ok=True)
        copy.write_bytes(code[: FLAGS.stop] + _stamp(target) + code[CODE])


def _stamp(source: Path) -> bytes:
    """Return what byte code names of its source: when it was written, in seconds, and how long it is."""
    status = source.stat()
    numbers = (int(status.st_mtime), status.st_size)
    return b"".join((number & 0xFFFFFFFF).to_bytes(4, "little") for number in numbers)
