"""Import large libraries with GC disabled."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def lasting() -> Iterator[None]:
    """Disable GC in the block, and permanently exclude from GC all objects that are alive after it.

    Imports create hundreds of thousands of objects that stay alive. Scanning them costs a quarter of the import of
    TensorFlow or Prefect, a third of a trace, and half a second at the end of the process.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if collects:
            gc.enable()
