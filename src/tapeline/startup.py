"""Importing TensorFlow without its greetings: what it says about drivers that a machine without a GPU lacks.

    with startup.quietly():
        import tensorflow

Every other line that is written to the standard error meanwhile is passed on, and all of them when it fails.
"""

import gc
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

_GREETINGS = (
    b"All log messages before absl::InitializeLog()",
    b"oneDNN custom operations are on",
    b"Could not find cuda drivers",
    b"failed call to cuInit",
    b"This TensorFlow binary is optimized to use available CPU instructions",
    b"To enable the following instructions",
)


@contextmanager
def quietly() -> Iterator[None]:
    """Hold back the process's standard error, then pass on what is not a greeting."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")
    sys.stderr.flush()
    original = os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        failed = True
        try:
            yield
            failed = False
        finally:
            sys.stderr.flush()
            os.dup2(original, 2)
            os.close(original)
            held.seek(0)
            for line in held:
                if failed or not any(greeting in line for greeting in _GREETINGS):
                    os.write(2, line)


def tensorflow() -> None:
    """Import TensorFlow and look for devices, which is when it greets."""
    with quietly():
        import tensorflow as tf

        tf.config.list_physical_devices()
        tf.constant(0)
    gc.freeze()  # the million objects of an imported TensorFlow live on: looking through them costs a third of a trace
