"""Importing large libraries without looking for garbage in them."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def lasting() -> Iterator[None]:
    """Look for no garbage meanwhile, nor ever in what is there at the end.

    Imports make hundreds of thousands of objects, and they stay. Looking through them costs a quarter of TensorFlow's
    import and of Prefect's, a third of a trace, and at the end of the process half a second.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if collects:
            gc.enable()
