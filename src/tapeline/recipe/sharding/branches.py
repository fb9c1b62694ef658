"""A branch of a step is taken by all shards together where its condition is the batch's: so they can meet inside it.

A condition that depends on a shard's own examples stays its own, and so does one inside the block of a tape, which has
to go back through it: there shards cannot meet.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tapeline.recipe.sharding import meetings
from tapeline.recipe.sharding.dependence import Dependence
from tapeline.runtime import tensorflow_private
from tapeline.runtime.tensorflow_private import Branch, Build

OWN = (
    "a branch whose condition depends on the examples, which differ between shards: move it out of the branch and "
    "select the values with tf.where"
)
TAPED = (
    "a branch inside the block of a tf.GradientTape, where shards cannot meet: end the block before the branch, or "
    "begin it inside"
)


class Branches:
    """What `tensorflow_private.conditions` calls for the conditions of shards; others pass."""

    def __init__(self, is_own: Dependence) -> None:
        self._is_own = is_own

    def __call__(self, condition: tf.Tensor, yes: Branch, no: Branch, build: Build) -> Any:
        """Build one condition for all shards, or this shard's own."""
        shard = meetings.running()
        if shard is None or shard.is_alone or shard.step.graph is not tf.compat.v1.get_default_graph():
            return build(condition, yes, no)
        taped = tensorflow_private.is_recording()
        if taped or self._is_own(condition, shard.step):
            with shard.alone_in(TAPED if taped else OWN):
                return build(condition, yes, no)
        brought = (condition, yes, no, meetings.Surroundings.here())
        together = meetings.meet("a branch", brought, lambda every: _together(shard.step, every, build))
        return together[shard.number]


def _together(step: meetings.Shards, brought: Sequence[Any], build: Build) -> Any:
    """Return the results of all shards."""
    conditions, yes, no, surroundings = zip(*brought, strict=True)

    def branch(calls: Sequence[Branch]) -> Branch:
        def taken() -> list[Any]:
            return step.inner(calls, surroundings, conditions[0])()  # whose graph is the branch's

        return taken

    with tf.name_scope(meetings.BRANCH):
        return build(conditions[0], branch(yes), branch(no))
