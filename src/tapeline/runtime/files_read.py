"""The files that a block of code reads: through Python, HDF5 or TensorFlow.

with files_read.watched() as read:
    recipe.build()
read   # the paths, absolute

Not seen is what other processes read, Arrow and other C libraries, and functions of TensorFlow, as of tf.data.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from tapeline.runtime import tensorflow_private

_watching: list[set[Path]] = []
"""One for each block that runs now."""


@contextmanager
def watched() -> Iterator[set[Path]]:
    """Yield a set that holds, when the block has ended, the absolute paths of what any of its code has opened to read.

    Links are not followed, and a file may be gone again.
    """
    _listen()
    found: set[Path] = set()
    _watching.append(found)
    try:
        with tensorflow_private.files_read(_note), _hdf5_told():
            yield found
    finally:
        _watching[:] = [other for other in _watching if other is not found]


@cache
def _listen() -> None:
    """Hear of each file that Python opens, from now on: a hook cannot be removed."""
    sys.addaudithook(_heard)


def _heard(event: str, given: tuple[Any, ...]) -> None:
    if not _watching:
        return
    if event == "open":
        path, _, flags = given
        if flags & os.O_ACCMODE != os.O_WRONLY and not flags & _NOT_READ:
            _note(path)
    elif event == "sqlite3.connect":
        _note(given[0])


_NOT_READ = os.O_DIRECTORY | os.O_TRUNC | os.O_EXCL | os.O_APPEND
"""How a folder is opened, a file that is made or replaced, and one that grows, such as a log."""


def _note(path: Any) -> None:
    """Keep a path; a descriptor's number, or what is no path at all, is none."""
    if isinstance(path, (str, bytes, os.PathLike)):
        name = os.fsdecode(path).removeprefix("file://")
        for found in _watching:
            found.add(Path(os.path.normpath(Path.cwd() / name)))


@contextmanager
def _hdf5_told() -> Iterator[None]:
    """Note what is opened by `h5py`, which Python does not see: Keras' `load_weights`."""
    import h5py  # type: ignore[import-untyped]

    before = h5py.h5f.open

    def opened(name: bytes, *given: Any, **named: Any) -> Any:
        _note(name)
        return before(name, *given, **named)

    h5py.h5f.open = opened
    try:
        yield
    finally:
        h5py.h5f.open = before
