"""Settings of the whole process that a recipe may not change: `params.yaml` has them, and a run's record names them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from tapeline.runtime.errors import InputError

_SETTINGS: dict[str, tuple[Callable[[], Any], Callable[[Any], object], str]] = {
    "Keras' global dtype policy": (
        lambda: keras.config.dtype_policy().name,
        keras.config.set_dtype_policy,
        "set train.precision instead",
    ),
    "Keras' floatx": (keras.config.floatx, keras.config.set_floatx, "give the layers a dtype instead"),
    "tf.config.run_functions_eagerly": (
        tf.config.functions_run_eagerly,
        tf.config.run_functions_eagerly,
        "set train.compile to eager instead",
    ),
}
"""What a setting is called → how it is read and set, and what a recipe does instead."""


@contextmanager
def unchanged(path: Path) -> Iterator[None]:
    """Raise `InputError` if the block changes a setting, and set it back. path: the recipe's file."""
    before = {name: read() for name, (read, _, _) in _SETTINGS.items()}
    changed = {}
    try:
        yield
    finally:
        for name, (read, write, _) in _SETTINGS.items():
            if (now := read()) != before[name]:
                write(before[name])
                changed[name] = now
    for name, now in changed.items():
        raise InputError(f"recipe {path} sets {name} to {now}: {_SETTINGS[name][2]}")
