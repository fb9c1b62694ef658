"""tf.data without autotuning, whose thread holds an iterator's end.

Deleting an iterator waits until that thread wakes (TensorFlow 2.21), and its period doubles with the iterator's age:
after half a minute the process hangs for many seconds with nothing to do, when it ends and when it is told to end.
"""

from typing import Any


def untuned(dataset: Any) -> Any:
    """Return a `tf.data.Dataset` whose iterators end at once, and those of all that is made of it."""
    import tensorflow as tf  # here: ingest reads most sources without it

    options = tf.data.Options()
    options.autotune.enabled = False
    return dataset.with_options(options)
