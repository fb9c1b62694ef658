"""Reading ahead and working in parallel, in order and in bounded memory.

for answer in in_order(prefetched(batches, 4), predicted, workers=2):   # reading, predicting and writing overlap
    write(answer)
"""

import contextlib
import queue
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from tapeline.runtime.errors import Interrupted

T = TypeVar("T")
R = TypeVar("R")

POLL = 0.1
"""Seconds after which a reader that waits for room looks whether it is still wanted."""


class _End:
    """The last thing that a reader says; error: why it ended early."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


def prefetched(items: Iterator[T], depth: int) -> Generator[T, None, None]:
    """Yield `items`, which a thread takes in advance, at most `depth` of them. Raises what they raise."""
    found: queue.Queue[T | _End] = queue.Queue(depth)
    unwanted = threading.Event()

    def put(item: T | _End) -> None:
        while not unwanted.is_set():
            with contextlib.suppress(queue.Full):
                found.put(item, timeout=POLL)
                return

    def fill() -> None:
        end = _End()
        try:
            for item in items:
                put(item)
                if unwanted.is_set():
                    return
        except BaseException as error:  # raised again where the items are used
            end = _End(error)
        put(end)

    reader = threading.Thread(target=fill, name="read ahead", daemon=True)
    reader.start()
    try:
        while not isinstance(item := found.get(), _End):
            yield item
        if item.error is not None:
            raise item.error
    finally:
        unwanted.set()
        reader.join()


def in_order(
    items: Iterable[T],
    work: Callable[[T], R],
    *,
    workers: int,
    ahead: int = 1,
    abandon: Callable[[], object] = lambda: None,
) -> Generator[R, None, None]:
    """Yield `work(item)` for each item in order; `workers` threads compute, `ahead` more results may wait.

    The items are taken in the caller's thread. The first error in that order is raised.
    abandon: called if a signal ends it, so that the work in hand need not be waited for.
    """
    waiting: deque[Future[R]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) > workers + ahead:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except (KeyboardInterrupt, Interrupted):
            abandon()
            raise
        finally:
            for future in waiting:
                future.cancel()
