"""A step taken by each shard of a batch: its context, its seeds, its part of the metrics."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from tapeline.recipe import Context, Recipe, loading, randomness, variables
from tapeline.recipe.context import running
from tapeline.recipe.metrics import sums_and_counts
from tapeline.recipe.sharding import kept, meetings, moments
from tapeline.recipe.sharding.branches import Branches
from tapeline.recipe.sharding.dependence import Dependence
from tapeline.recipe.sharding.means import balanced_sum
from tapeline.recipe.sharding.writes import Names, Write, Writes, check_same
from tapeline.runtime import keras_private, tensorflow_private
from tapeline.runtime.errors import InputError


class Sharded:
    """Runs a recipe's step for `count` shards; in a graph, `at_once` of them at the same time, all if None."""

    def __init__(self, recipe: Recipe, count: int, *, at_once: int | None) -> None:
        self._recipe, self._count, self._at_once = recipe, count, at_once
        self._begin = kept.of(recipe)()
        self._names = Names(recipe)
        self._generators = variables.find(recipe).generators
        self._part: Mapping[str, tf.TensorSpec] = {}
        self._written: Sequence[Write] = ()
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
        writes, every = self._run(train_step, part, context, [context.shard(n) for n in range(self._count)], examples)
        if not tf.executing_eagerly():
            self._written = writes.done
        names = every[0][0]
        if odd := next((others for others, _ in every if others != names), None):
            raise InputError(
                f"train.shards: one shard of a step returns the metrics {', '.join(names)}, but another "
                f"{', '.join(odd)}"
            )
        return names, balanced_sum([totals for _, totals in every])

    def check_writes(self, train_step: Callable[[Any, Context], Any], key: tf.Tensor, path: Path) -> None:
        """Raise `InputError` if the step that was traced last writes what it would not for the whole batch.

        path: the recipe's file. What Python keeps is for the step as it was before it was traced, and stays as it is.
        """
        averages = moments.averages(variables.layers(self._recipe))
        written = [one for one in self._written if id(one.variable) not in averages]
        if not written:
            return
        recipe, size = self._recipe, self._recipe.batch_size
        found: list[Writes] = []

        def whole(batch: Any, step: tf.Tensor) -> None:
            context = Context(step, key)
            writes, _ = self._run(train_step, lambda number: batch, context, [context.shard(0)], [*batch.values()])
            found.append(writes)

        def larger(spec: tf.TensorSpec) -> tf.TensorSpec:
            rows = [size * self._count] if spec.shape[:1] == [size] else spec.shape[:1]
            return tf.TensorSpec([*rows, *spec.shape[1:]], spec.dtype)

        batch = {name: larger(spec) for name, spec in self._part.items()}
        fails = (
            f"changes {written[0].name}, so it must give the same for a shard's {size} examples and the batch's "
            f"{size * self._count}, but fails for these: make it accept both, or set train.shards to 1"
        )
        restore = kept.of(recipe)()
        self._begin()
        recipe.batch_size = size * self._count
        try:
            with loading.blaming(path, InputError, fails):
                tf.function(whole, autograph=False).get_concrete_function(batch, tf.TensorSpec([], tf.int64))
        finally:
            recipe.batch_size = size
            restore()
        check_same(written, [one for one in found[0].done if id(one.variable) not in averages])

    def _run(
        self,
        train_step: Callable[[Any, Context], Any],
        part: Callable[[int], Any],
        context: Context,
        contexts: Sequence[Context],
        examples: Sequence[tf.Tensor],
    ) -> tuple[Writes, list[tuple[list[str], tf.Tensor]]]:
        """Return what was written, and each shard's metric names and sums; contexts: one for each shard."""

        def take(number: int) -> tuple[list[str], tf.Tensor]:
            own = contexts[number]
            batch = part(number)
            if not tf.executing_eagerly():
                self._part = {name: tf.TensorSpec(value.shape, value.dtype) for name, value in batch.items()}
            with running(own):
                metrics = train_step(batch, own)
            return sums_and_counts(metrics, of="train_step")

        states = [{name: state.value for name, state in every.items()} for every in (self._generators, *self._others)]
        for own, mine in zip(contexts, states, strict=False):
            randomness.seed_states(mine, own)
        one_shards = [*examples, *(own.key for own in contexts)]
        is_own = Dependence(one_shards, [state for mine in states for state in mine.values()])
        writes = Writes(is_own, self._names)
        with (
            running(context),
            randomness.seeded_images(context, "train_step"),
            tensorflow_private.writes(writes),
            tensorflow_private.conditions(Branches(is_own)),
            tensorflow_private.vectorizations(meetings.vectorized),
            keras_private.draws(self._drawing),
        ):
            calls = [partial(take, number) for number in range(len(contexts))]
            return writes, meetings.Shards(calls, keep=kept.of(self._recipe), at_once=self._at_once)()

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
