"""Import large libraries with GC disabled."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def lasting() -> Iterator[None]:
    """Disable GC in the block, and permanently exclude from GC all objects that are alive after it.

    If the block imported nothing, none is: what a process has let go of since, such as a training in a cycle of
    references, would never be freed.

    Imports create hundreds of thousands of objects that stay alive. Scanning them costs a quarter of the import of
    TensorFlow or Prefect, a third of a trace, and half a second at the end of the process.
    """
    collects, known = gc.isenabled(), len(sys.modules)
    gc.disable()
    try:
        yield
    finally:
        if len(sys.modules) > known:
            gc.freeze()
        if collects:
            gc.enable()
