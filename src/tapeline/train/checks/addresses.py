"""Other addresses for the objects of a second start, so that an order which depends on them is another one.

A set of layers, or of other objects without a `__hash__` of their own, has the order of their addresses. Two starts in
one process would often agree, as each gives the same objects the same places after one another.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager

_LARGEST = 512
"""Python allocates objects of up to so many bytes from pools of blocks of one size."""
_STEP = 16
_BLOCKS = 256
"""Blocks of each size; together they are filled and freed in 2 ms."""


@contextmanager
def shuffled() -> Iterator[None]:
    """Have Python give out blocks of memory in a shuffled order in the block."""
    order, kept = random.Random(0), []
    overhead = b"".__sizeof__()
    for size in range(3 * _STEP, _LARGEST + 1, _STEP):
        blocks = [bytes(size - overhead) for _ in range(_BLOCKS)]
        order.shuffle(blocks)
        kept += blocks[::4]  # so that no pool is empty, which would be begun anew
        del blocks[::4]
        while blocks:
            blocks.pop()
    yield
    kept.clear()
