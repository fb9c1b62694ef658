"""Find the lookup tables that a signature reads in the recipe's attributes, so that a SavedModel can hold them."""

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tapeline.recipe import Recipe
from tapeline.recipe.variables import LEAVES
from tapeline.runtime import tensorflow_private


def read_by(functions: Iterable[Any], recipe: Recipe, variables: Iterable[tf.Variable]) -> list[Any]:
    """Return the tables that concrete functions read, in the order of the attributes; usually none.

    A table made from values in memory is renamed by its content, because TensorFlow's random name would be in the
    SavedModel's bytes.
    """
    known = {id(variable.handle) for variable in variables}
    captured = {
        id(outer) for function in functions for outer, _ in function.graph.captures if outer.dtype == tf.resource
    }
    if not captured - known:
        return []
    found = [table for table in _resources(recipe, set()) if id(table.resource_handle) in captured]
    for table in found:
        if tensorflow_private.shared_name(table).startswith(tensorflow_private.RANDOM_NAME):
            tensorflow_private.rename(table, f"{tensorflow_private.RANDOM_NAME}{_content(table)}")
    return found


def _content(table: Any) -> str:
    keys, values = (part.numpy() for part in table.export())
    order = np.argsort(keys, kind="stable")
    said = (keys.dtype.str, values.dtype.str, keys[order].tolist(), values[order].tolist())
    return sha256(repr(said).encode()).hexdigest()


def _resources(value: Any, seen: set[int]) -> Iterator[Any]:
    """Yield every reachable resource except variables; of a wrapper, only the resource inside."""
    if isinstance(value, (*LEAVES, np.ndarray, tf.Variable, keras.Variable)) or id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, Mapping):
        inner: Iterable[Any] = list(value.values())
    elif isinstance(value, (list, tuple)):
        inner = list(value)
    else:
        inner = list(getattr(value, "__dict__", {}).values())
    wrapped = False
    for item in inner:
        for resource in _resources(item, seen):
            wrapped = True
            yield resource
    if isinstance(value, tf.saved_model.experimental.TrackableResource) and not wrapped:
        yield value
