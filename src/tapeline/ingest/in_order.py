"""Work in threads, with the results in order and few of them waiting.

for pixels in in_order(paths, decode):     # `decode` runs on all cores, as far as it releases Python's lock
    ...
"""

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

MOST = 32
"""Threads, however many cores there are: beyond, Python's lock is what they wait for."""


def threads() -> int:
    """Return how many threads to work in: the cores that this process may use, at most `MOST`."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MOST)


def in_order(
    items: Iterable[T], work: Callable[[T], R], *, ahead: int = 2, most: int = MOST, per_core: int = 1
) -> Generator[R, None, None]:
    """Yield `work(item)` for each item, in order; the first error in that order is raised.

    ahead: how many results a thread may have waiting; most: threads; per_core: threads for each core, more than one
    where they wait for others. The items are taken in the caller's thread.
    """
    count = min(per_core * threads(), most)
    waiting: deque[Future[R]] = deque()
    with ThreadPoolExecutor(count, thread_name_prefix="ingest") as pool:
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) > count * ahead:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
