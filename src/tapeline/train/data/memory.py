"""Memory: whether the training columns are held in it, and blocks of it that are used again."""

import contextlib
import os
import weakref
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

RAM_SHARE = 0.25
"""Of the memory that this process may use that columns may take."""
CGROUPS = Path("/sys/fs/cgroup")
ALIGNMENT = 64
"""Bytes; TensorFlow takes an array that begins at a multiple as it is, and copies another."""


def fits_in_ram(nbytes: int) -> bool:
    """Return whether columns of so many bytes are held in memory."""
    return nbytes <= RAM_SHARE * usable()


def usable(*, cgroups: Path = CGROUPS, membership: Path = Path("/proc/self/cgroup")) -> int:
    """Return how many bytes this process may use: the machine's memory, or less where a container's limit is lower.

    A limit holds for the control groups below it too, so the lowest on the way up counts. cgroups: the mounted tree
    of version 1 or 2. A process that goes beyond the limit is killed, while the machine has memory left.
    """
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *_limits(cgroups, membership)])


def _limits(cgroups: Path, membership: Path) -> Iterator[int]:
    try:
        lines = membership.read_text().splitlines()
    except OSError:  # no Linux
        return
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if controllers == "":
            roots, file = (cgroups, cgroups / "unified"), "memory.max"
        elif "memory" in controllers.split(","):
            roots, file = (cgroups / "memory", cgroups / controllers), "memory.limit_in_bytes"
        else:
            continue
        # In a container the path may be the host's, while the container sees its own group as the root.
        inside = PurePosixPath(group).relative_to("/") if group.startswith("/") else PurePosixPath(group)
        for root in roots:
            for folder in (inside, *inside.parents):
                with contextlib.suppress(OSError, ValueError):  # not there, or "max"
                    yield int((root / folder / file).read_text())


class Recycled:
    """Arrays of one shape and dtype in blocks that are used again once nobody holds the array that was in them.

    New memory would be filled with zeros by the system, page by page, for each of them.
    """

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._shape, self._dtype = shape, dtype
        self._free: list[NDArray[np.uint8]] = []

    def take(self) -> NDArray[Any]:
        """Return an array that holds whatever was there before; from any thread."""
        count = int(np.prod(self._shape)) * self._dtype.itemsize
        try:
            block = self._free.pop()
        except IndexError:
            block = np.empty(count + ALIGNMENT, np.uint8)
        start = -block.ctypes.data % ALIGNMENT
        array = block[start : start + count].view(self._dtype).reshape(self._shape)
        weakref.finalize(array, self._free.append, block).atexit = False
        return array
