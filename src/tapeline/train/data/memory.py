"""Memory: whether the training columns fit in it, and reusable blocks of it."""

import weakref
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapeline.runtime import memory

RAM_SHARE = 0.25
"""The fraction of this process's usable memory that columns may take."""
ALIGNMENT = 64
"""Bytes; TensorFlow uses an array aligned to this without a copy, and copies any other."""


def fits_in_ram(nbytes: int) -> bool:
    """Return whether columns of `nbytes` bytes are held in memory."""
    return nbytes <= RAM_SHARE * memory.usable()


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
