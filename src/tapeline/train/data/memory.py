"""Memory: whether the training columns fit in it, and reusable blocks of it."""

import contextlib
import os
import weakref
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

RAM_SHARE = 0.25
"""The fraction of this process's usable memory that columns may take."""
CGROUPS = Path("/sys/fs/cgroup")
ALIGNMENT = 64
"""Bytes; TensorFlow uses an array aligned to this without a copy, and copies any other."""


def fits_in_ram(nbytes: int) -> bool:
    """Return whether columns of `nbytes` bytes are held in memory."""
    return nbytes <= RAM_SHARE * usable()


def usable(*, cgroups: Path = CGROUPS, membership: Path = Path("/proc/self/cgroup")) -> int:
    """Return how many bytes this process may use: the machine's memory, or a container's limit if it is lower.

    A limit also applies to the control groups below it, so the lowest on the way up counts. cgroups: the mounted tree
    of version 1 or 2. A process above the limit is killed even if the machine has memory left.
    """
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([machine, *_limits(cgroups, membership)])


def _limits(cgroups: Path, membership: Path) -> Iterator[int]:
    try:
        lines = membership.read_text().splitlines()
    except OSError:  # not Linux
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
    """Arrays of one shape and dtype in memory blocks that are reused once their array is no longer referenced.

    Otherwise the system would zero new memory, page by page, for each array.
    """

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._shape, self._dtype = shape, dtype
        self._free: list[NDArray[np.uint8]] = []

    def take(self) -> NDArray[Any]:
        """Return an uninitialized array. Callable from any thread."""
        count = int(np.prod(self._shape)) * self._dtype.itemsize
        try:
            block = self._free.pop()
        except IndexError:
            block = np.empty(count + ALIGNMENT, np.uint8)
        start = -block.ctypes.data % ALIGNMENT
        array = block[start : start + count].view(self._dtype).reshape(self._shape)
        weakref.finalize(array, self._free.append, block).atexit = False
        return array
