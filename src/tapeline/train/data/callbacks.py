"""Python functions that a tf.data pipeline calls, and that are released together with it."""

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

Call = Callable[[Callable[..., Any], Sequence[tf.Tensor], Any], tf.Tensor]


@contextmanager
def callbacks() -> Iterator[Call]:
    """Yield what takes the place of `tf.numpy_function`; the functions given to it go with the block.

    TensorFlow keeps each for as long as the process's default graph, which is for good, and with it all that it refers
    to: a training's columns, memory maps and file descriptors. Here it keeps a weak reference.
    """
    kept: list[Callable[..., Any]] = []

    def call(function: Callable[..., Any], inputs: Sequence[tf.Tensor], dtype: Any) -> tf.Tensor:
        kept.append(function)
        known: Callable[[], Any] = weakref.ref(function)

        def run(*values: Any) -> Any:
            return known()(*values)

        return tf.numpy_function(run, inputs, dtype)

    try:
        yield call
    finally:
        kept.clear()
