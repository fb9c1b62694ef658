"""Whether a value is one shard's own, or the same for all."""

from collections.abc import Collection
from typing import Any

import tensorflow as tf

from tapeline.recipe.sharding import meetings
from tapeline.recipe.sharding.sources import Sources


class Dependence:
    """Tells which values come from one shard's examples or seeds, other than through a meeting.

    own: tensors that are only one shard's: its examples and its seeds. states: of seed generators. What these draw is
    found by their handles.
    """

    def __init__(self, own: Collection[tf.Tensor], states: Collection[tf.Variable]) -> None:
        self._own = {id(tensor) for tensor in own}
        self._handles = {id(state.handle) for state in states}

    def __call__(self, value: Any, step: meetings.Shards) -> bool:
        """Return whether a value, tensors in any nest, is one shard's own; in eager mode the step was traced before."""
        seen: set[int] = set()
        found = [one for one in tf.nest.flatten(value, expand_composites=True) if not isinstance(one, tf.Variable)]
        sources = Sources(step)
        while found:
            tensor = found.pop()
            if id(tensor) in seen:
                continue
            seen.add(id(tensor))
            if id(tensor) in self._own or id(tensor) in self._handles:
                return True
            if sources.has(tensor) and step.met(tensor) is None:
                found += sources.of(tensor)
        return False
