"""Memory: whether the training columns are held in it, and blocks of it that are used again."""

import os
import weakref
from typing import Any

import numpy as np
from numpy.typing import NDArray

RAM_SHARE = 0.25
"""Of the machine's memory that columns may take."""
ALIGNMENT = 64
"""Bytes; TensorFlow takes an array that begins at a multiple as it is, and copies another."""


def fits_in_ram(nbytes: int) -> bool:
    """Return whether columns of so many bytes are held in memory."""
    return nbytes <= RAM_SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


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
