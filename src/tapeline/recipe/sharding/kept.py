"""Save and restore, around a meeting, the tensors that Python objects hold: each shard has its own.

It is set back in attributes, dicts and lists; `crossing` finds what goes another way.
"""

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any

import keras
import tensorflow as tf

from tapeline.recipe.sharding.crossing import is_constant
from tapeline.recipe.sharding.meetings import Keep
from tapeline.recipe.variables import COLLECTIONS, LEAVES, children, layers
from tapeline.runtime import keras_private

_CLOSED = (
    *(kind for kind in LEAVES if kind is not tf.Tensor),
    tf.Variable,
    keras.Variable,
    keras.optimizers.Optimizer,
    tf.Graph,
    tf.types.experimental.GenericFunction,
)
"""What holds no tensor that a step has computed, or none that can be set back."""

_LARGE = 10_000
"""Entries of what is data rather than state: to look at them at each meeting would take long."""


def of(recipe: Any) -> Keep:
    """Return a function that takes a snapshot of a recipe: losses that layers have added, and tensors that it keeps."""

    def snapshot() -> Callable[[], None]:
        every = list(layers(recipe))
        numbers = {id(layer) for layer in every}
        losses = keras_private.losses(every)
        known = {id(place): (place, _copy(place)) for place in _places(recipe)}

        def restore() -> None:
            now = list(_places(recipe))
            for place in now:
                _set_back(place, known[id(place)][1] if id(place) in known else None)
            for place, entries in known.values():
                _set_back(place, entries)  # those that are out of reach too
            keras_private.forget_losses([layer for layer in layers(recipe) if id(layer) not in numbers])
            losses()

        return restore

    return snapshot


def _copy(place: Any) -> Any:
    return dict(place) if isinstance(place, Mapping) else list(place)


def _places(recipe: Any) -> Iterator[Any]:
    """Yield the attributes, dicts and lists that are reachable from a recipe's attributes, each once."""
    seen: set[int] = set()
    found: list[Any] = [recipe]
    while found:
        value = found.pop()
        if isinstance(value, (*_CLOSED, tf.Tensor)) or id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, COLLECTIONS) and len(value) > _LARGE:
            continue
        if isinstance(value, keras.Layer):
            for layer in keras_private.layers_in(value):
                if own := keras_private.own_attributes(layer):
                    yield vars(layer)
                    found += [vars(layer)[name] for name in own]
            continue
        if isinstance(value, (MutableMapping, list)):
            yield value
        elif not isinstance(value, COLLECTIONS) and hasattr(value, "__dict__"):
            yield vars(value)
        found += children(value)


def _set_back(place: Any, entries: Any) -> None:
    """Make the tensors in a place what they were; None is a place that is new, such as a new layer's attributes."""
    if isinstance(place, MutableMapping):
        entries = entries or {}
        for key in {**entries, **place}:
            before, now = entries.get(key), place.get(key)
            if before is now or not (_carries(before) or _carries(now)):
                continue
            if key in entries:
                place[key] = before
            else:
                del place[key]
    elif entries is not None and [*map(id, entries)] != [*map(id, place)] and any(map(_carries, (*entries, *place))):
        list.__setitem__(place, slice(None), entries)


def _carries(value: Any) -> bool:
    """Return whether a value holds a tensor that a step has computed, and no variable or layer, which all share."""
    tensors, seen = False, set()
    found = [value]
    while found:
        one = found.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, (tf.Variable, keras.Variable, keras.Layer, keras.optimizers.Optimizer)):
            return False
        if isinstance(one, tf.Tensor) or tf.is_tensor(one):
            tensors |= any(not _is_fixed(part) for part in tf.nest.flatten(one, expand_composites=True))
        elif not isinstance(one, _CLOSED):
            found += children(one)
    return tensors


def _is_fixed(tensor: Any) -> bool:
    """Return whether a tensor is the same for all shards: a constant, in a graph."""
    return not tf.executing_eagerly() and (getattr(tensor, "graph", None) is None or is_constant(tensor))
