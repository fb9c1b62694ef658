"""A step taken by each shard of a batch: its context, its seeds, its part of the metrics."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import keras
import tensorflow as tf

from tapeline.recipe import Context, Recipe, randomness, variables
from tapeline.recipe.context import running
from tapeline.recipe.metrics import sums_and_counts
from tapeline.recipe.sharding import kept, meetings
from tapeline.recipe.sharding.branches import Branches
from tapeline.recipe.sharding.dependence import Dependence
from tapeline.recipe.sharding.means import balanced_sum
from tapeline.recipe.sharding.writes import Writes
from tapeline.runtime import keras_private, tensorflow_private
from tapeline.runtime.errors import InputError


class Sharded:
    """Runs a recipe's step for `count` shards; in a graph, `at_once` of them at the same time, all if None."""

    def __init__(self, recipe: Recipe, count: int, *, at_once: int | None) -> None:
        self._recipe, self._count, self._at_once = recipe, count, at_once
        self._generators = variables.find(recipe).generators
        self._others = [{name: _like(state) for name, state in self._generators.items()} for _ in range(count - 1)]

    @property
    def seeds(self) -> dict[str, tf.Variable]:
        """The states that seed generators draw from in all shards but the first: set in each step, in no checkpoint."""
        return {
            f"shard {number} of {name}": state.value
            for number, states in enumerate(self._others, 1)
            for name, state in states.items()
        }

    def __call__(
        self,
        train_step: Callable[[Any, Context], Any],
        part: Callable[[int], Any],
        context: Context,
        examples: Sequence[tf.Tensor],
    ) -> tuple[list[str], tf.Tensor]:
        """Return the metric names and the sums of all shards' (sum, count), float64 of shape (metrics, 2).

        part: a shard's number → its part of the batch. examples: the tensors that parts are cut from.
        """

        def take(number: int) -> tuple[list[str], tf.Tensor]:
            own = contexts[number]
            with running(own):
                metrics = train_step(part(number), own)
            return sums_and_counts(metrics, of="train_step")

        contexts = [context.shard(number) for number in range(self._count)]
        states = [{name: state.value for name, state in every.items()} for every in (self._generators, *self._others)]
        for own, mine in zip(contexts, states, strict=True):
            randomness.seed_states(mine, own)
        one_shards = [*examples, *(own.key for own in contexts)]
        is_own = Dependence(one_shards, [state for mine in states for state in mine.values()])
        with (
            running(context),
            randomness.seeded_images(context, "train_step"),
            tensorflow_private.writes(Writes(is_own)),
            tensorflow_private.conditions(Branches(is_own)),
            tensorflow_private.vectorizations(meetings.vectorized),
            keras_private.draws(self._drawing),
        ):
            calls = [partial(take, number) for number in range(self._count)]
            every = meetings.Shards(calls, keep=kept.of(self._recipe), at_once=self._at_once)()
        names = every[0][0]
        if odd := next((others for others, _ in every if others != names), None):
            raise InputError(
                f"train.shards: one shard of a step returns the metrics {', '.join(names)}, another {', '.join(odd)}"
            )
        return names, balanced_sum([totals for _, totals in every])

    @contextmanager
    def _drawing(self, state: keras.Variable) -> Iterator[keras.Variable]:
        """Yield the state that the running shard draws from in place of a generator's."""
        shard = meetings.running()
        if shard is None:
            yield state
            return
        name = next((name for name, known in self._generators.items() if known is state), None)
        shard.drawing = True
        try:
            yield self._others[shard.number - 1][name] if name and shard.number else state
        finally:
            shard.drawing = False


def _like(state: keras.Variable) -> keras.Variable:
    return keras.Variable(tf.zeros_like(state.value), dtype=state.dtype, trainable=False, name="seed")
