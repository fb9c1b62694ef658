"""tf.data without autotuning, whose thread delays the deletion of an iterator.

Deleting an iterator waits until that thread wakes (TensorFlow 2.21), and its sleep doubles as the iterator ages:
after half a minute the process hangs idle for many seconds when it ends or is asked to end.
"""

from typing import Any


def untuned(dataset: Any) -> Any:
    """Return a `tf.data.Dataset` whose iterators, and those of datasets derived from it, are deleted at once."""
    import tensorflow as tf  # here: ingest reads most sources without it

    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)
