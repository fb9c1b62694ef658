"""A write to a variable inside a step of shards is done once, for all: it may not depend on one shard's examples.

Nor may it depend on how many they are, which Python and constants of the graph know as well: a step with such writes is
traced once more, with the whole batch as its only shard, and must write the same.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import tensorflow as tf

from tapeline.recipe import variables
from tapeline.recipe.sharding import meetings, provenance
from tapeline.recipe.sharding.dependence import Dependence
from tapeline.runtime.errors import InputError


@dataclass(frozen=True)
class Write:
    """A write to a variable in a graph.

    name: as messages call the variable. provenance: how the value, and whether there is a write, is computed, see
    `provenance.of`.
    """

    variable: Any
    name: str
    provenance: Sequence[str]


class Names:
    """What messages call the variables of a recipe: as checkpoints do, or else by TensorFlow's name."""

    def __init__(self, recipe: Any) -> None:
        self._recipe = recipe
        self._known: dict[int, tuple[Any, str]] = {}

    def __call__(self, variable: Any) -> str:
        """Return the name of a variable, or of what a write to it has returned."""
        place = id(variable.handle)
        if place not in self._known:
            held = variables.find(self._recipe).all()
            self._known |= {id(one.handle): (one, name) for name, one in held.items()}
        return self._known.setdefault(place, (variable, variable.name.split(":")[0]))[1]


class Writes:
    """What `tensorflow_private.writes` calls for the writes of shards; others pass."""

    def __init__(self, is_own: Dependence, names: Names) -> None:
        self._is_own, self._names = is_own, names
        self.done: list[Write] = []
        """The writes in a graph so far."""

    def __call__(self, variable: Any, value: Any, write: Callable[[Any], Any]) -> Any:
        """Do one write for all shards. Raises `InputError` if each would write another value."""
        shard = meetings.running()
        if shard is None or shard.drawing or (shard.step.graph is not None and tf.executing_eagerly()):
            return write(value)  # not in a shard; a seed generator's state; a new variable's initial value

        name = self._names(variable)

        def once(brought: list[Any]) -> Any:
            if self._is_own(brought[0], shard.step):
                raise InputError(
                    f"train_step changes {name} by a value that depends on its examples, which differ between shards: "
                    "pass gradients to self.update, which averages them, or set train.shards to 1"
                )
            if shard.step.graph is not None:
                known = provenance.of([brought[0], shard.step.conditions], shard.step)
                self.done.append(Write(variable, name, known))
            return write(brought[0])

        return meetings.meet(f"the change of {name}", value, once)


def check_same(shards: Sequence[Write], batch: Sequence[Write]) -> None:
    """Raise `InputError` unless shards write what the whole batch does."""
    for one, other in zip_longest(shards, batch):
        if not (one and other and one.variable is other.variable and one.provenance == other.provenance):
            raise InputError(
                f"train_step changes {(one or other).name} by a value or in a branch that depends on the number of "
                "examples, but a shard has only part of the batch: count steps instead, or set train.shards to 1"
            )
