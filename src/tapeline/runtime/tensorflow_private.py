"""The private names of TensorFlow that Tapeline uses, all of them: an upgrade that removes one is repaired here.

`tests/runtime/test_tensorflow_private.py` fails by name when one goes; `pyproject.toml` bounds the version.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import tensorflow as tf
from tensorflow.python.ops import image_ops_impl, random_crop_ops

_DRAWING = (image_ops_impl, random_crop_ops)
"""The modules behind `tf.image.random_…`, which call `random_ops.random_uniform`."""
RANDOM_NAME = "hash_table_"
"""How the shared name of a lookup table begins if TensorFlow made it up."""


def autograph_convert(function: Any) -> Any:
    """Return a function converted by AutoGraph."""
    autograph = tf.__internal__.autograph
    return autograph.tf_convert(function, autograph.control_status_ctx())


def functions_in(graph: Any) -> Mapping[str, Any]:
    """Return the functions of a graph by name, each with a `graph`."""
    functions: Mapping[str, Any] = graph._functions
    return functions


def is_branch(graph: Any) -> bool:
    """Return whether a graph is a branch of a condition, which runs at most once."""
    return type(graph).__name__ == "CondBranchFuncGraph"


def shared_name(table: Any) -> str:
    """Return a lookup table's name in a SavedModel; "" for a resource without one."""
    return str(getattr(table, "_shared_name", None) or "")


def rename(table: Any, name: str) -> None:
    """Change what `shared_name` returns."""
    table._shared_name = name


@contextmanager
def image_draws(random_uniform: Callable[..., tf.Tensor]) -> Iterator[None]:
    """Make `tf.image.random_…` draw from `random_uniform` in the block."""
    originals = [module.random_ops for module in _DRAWING]
    for module, original in zip(_DRAWING, originals, strict=True):
        module.random_ops = _With(original, random_uniform)
    try:
        yield
    finally:
        for module, original in zip(_DRAWING, originals, strict=True):
            module.random_ops = original


class _With:
    """TensorFlow's module of random operations with `random_uniform` replaced."""

    def __init__(self, original: Any, random_uniform: Any) -> None:
        self._original, self.random_uniform = original, random_uniform

    def __getattr__(self, name: str) -> Any:
        return getattr(self._original, name)
