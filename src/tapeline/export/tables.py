"""Find the lookup tables that a signature reads in the recipe's attributes, so that a SavedModel can hold them."""

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tapeline.recipe import Recipe
from tapeline.recipe.variables import LEAVES, SETS, children
from tapeline.runtime import tensorflow_private


def read_by(functions: Iterable[Any], recipe: Recipe, variables: Iterable[tf.Variable]) -> list[Any]:
    """Return the tables that concrete functions read, in the order of the attributes; usually none.

    A table made from values in memory is renamed by its content, because TensorFlow's random name would be in the
    SavedModel's bytes.
    """
    known = {id(variable.handle) for variable in variables}
    outside = (outer for function in functions for outer, _ in function.graph.captures if outer.dtype == tf.resource)
    captured = {number: place for place, number in enumerate(dict.fromkeys(map(id, outside)))}
    if not captured.keys() - known:
        return []
    found = [table for table in _resources(recipe, captured, set()) if id(table.resource_handle) in captured]
    for table in found:
        if tensorflow_private.shared_name(table).startswith(tensorflow_private.RANDOM_NAME):
            tensorflow_private.rename(table, f"{tensorflow_private.RANDOM_NAME}{_content(table)}")
    return found


def _content(table: Any) -> str:
    keys, values = (part.numpy() for part in table.export())
    order = np.argsort(keys, kind="stable")
    said = (keys.dtype.str, values.dtype.str, keys[order].tolist(), values[order].tolist())
    return sha256(repr(said).encode()).hexdigest()


def _resources(value: Any, captured: Mapping[int, int], seen: set[int]) -> list[Any]:
    """Return every reachable resource except variables; of a wrapper, only the resource inside.

    captured: the place of each that the functions read, by its handle's `id`: the order of those in a set.
    """
    if isinstance(value, (*LEAVES, np.ndarray, tf.Variable, keras.Variable)) or id(value) in seen:
        return []
    seen.add(id(value))
    found = [resource for item in children(value) for resource in _resources(item, captured, seen)]
    if isinstance(value, SETS):
        found.sort(key=lambda resource: captured.get(id(resource.resource_handle), -1))
    is_wrapped = bool(found) or not isinstance(value, tf.saved_model.experimental.TrackableResource)
    return found if is_wrapped else [value]
