"""A write to a variable inside a step of shards is done once, for all: it may not depend on one shard's examples."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tapeline.recipe.sharding import meetings
from tapeline.recipe.sharding.dependence import Dependence
from tapeline.runtime.errors import InputError


class Writes:
    """What `tensorflow_private.writes` calls for the writes of shards; others pass."""

    def __init__(self, is_own: Dependence) -> None:
        self._is_own = is_own

    def __call__(self, variable: Any, value: Any, write: Callable[[Any], Any]) -> Any:
        """Do one write for all shards. Raises `InputError` if each would write another value."""
        shard = meetings.running()
        if shard is None or shard.drawing or (shard.step.graph is not None and tf.executing_eagerly()):
            return write(value)  # not in a shard; a seed generator's state; a new variable's initial value

        name = variable.name.split(":")[0]

        def once(brought: list[Any]) -> Any:
            if self._is_own(brought[0], shard.step):
                raise InputError(
                    f"train_step changes {name} by a value that depends on its examples, and each shard of "
                    f"the batch has others: pass gradients to self.update, which takes their mean, or set train.shards "
                    f"to 1"
                )
            return write(brought[0])

        return meetings.meet(f"the change of {name}", value, once)
