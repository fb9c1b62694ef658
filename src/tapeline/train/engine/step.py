"""A recipe's `train_step` for one row of a chunk, traced once: every loop of a run calls the same function."""

from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import tensorflow as tf

from tapeline.recipe import Context, Recipe, randomness, variables
from tapeline.recipe.autograph import convert
from tapeline.recipe.context import running
from tapeline.recipe.metrics import sums_and_counts
from tapeline.runtime import computed_once, faster
from tapeline.train.data.feed import Feed
from tapeline.train.engine.sharded import Sharded


class Step:
    """One step of a recipe over a feed.

    mode: `graph`, `xla` or `eager`. shards: how many parts of the batch take it. at_once: how many of them at the same
    time, in a graph.
    """

    def __init__(
        self,
        recipe: Recipe,
        feed: Feed,
        *,
        key: tf.Tensor,
        mode: str = "graph",
        shards: int = 1,
        at_once: int | None = None,
    ) -> None:
        self.feed = feed
        self._recipe, self._key, self._mode = recipe, key, mode
        self._seeds = variables.find(recipe).seeds
        self.sharded = Sharded(recipe, shards, at_once=at_once) if shards > 1 else None
        self._converted = convert(recipe.train_step)
        self.traced, self.names = self._trace()
        """The concrete function of a step, and the metric names in the order of its sums."""
        found = variables.find(recipe).seeds
        if found.keys() != self._seeds.keys():  # tracing created some: layers that build late, or `keras.random`
            self._seeds = found
            self.sharded = Sharded(recipe, shards, at_once=at_once) if shards > 1 else None
            self.traced, self.names = self._trace()

    def trace_again(self) -> None:
        """Trace once more what is traced already, to see what that does to the recipe."""
        self._trace()

    def check_writes(self, path: Path) -> None:
        """Raise `InputError` if shards write what the whole batch would not. path: the recipe's file."""
        if self.sharded:
            self.sharded.check_writes(self._converted, self._key, path)

    @property
    def seeds(self) -> dict[str, tf.Variable]:
        """Variables of the step that are in no checkpoint, because each step begins by setting them."""
        return self.sharded.seeds if self.sharded else {}

    def __call__(self, columns: Any, rows: Any, row: tf.Tensor, step: tf.Tensor) -> tf.Tensor:
        """Run step `step` on a row of a chunk: eagerly, or as a call of the traced function inside a graph.

        Returns the (sum, count) of each metric, float64 of shape (metrics, 2).
        """
        if tf.executing_eagerly():
            return self._run(self._recipe.train_step, columns, rows, row, step)[1]
        return self.traced(columns, rows, row, step)

    def _trace(self) -> tuple[Any, list[str]]:
        names: list[str] = []

        def one(columns: Any, rows: Any, row: tf.Tensor, step: tf.Tensor) -> tf.Tensor:
            names[:], update = self._run(self._converted, columns, rows, row, step)
            return update

        rows = {name: tf.TensorSpec((None, *spec.shape), spec.dtype) for name, spec in self.feed.row_specs.items()}
        columns = {name: tf.TensorSpec(c.shape, c.dtype) for name, c in self.feed.columns.items()}
        number = tf.TensorSpec([], tf.int64)
        once = computed_once.sums_of_gradients() if self._mode == "xla" else nullcontext()
        with faster.kernels(), once:
            traced = tf.function(one, autograph=False).get_concrete_function(columns, rows, number, number)
        return traced, names

    def _run(
        self, train_step: Any, columns: Any, rows: Any, row: tf.Tensor, step: tf.Tensor
    ) -> tuple[list[str], tf.Tensor]:
        context = Context(step, self._key)
        if self.sharded:
            part = partial(self.feed.part, rows, columns, row)
            return self.sharded(train_step, part, context, [*columns.values(), *rows.values()])
        batch = self.feed.batch(rows, columns, row)
        randomness.seed_states(self._seeds, context)
        with running(context), randomness.seeded_images(context, "train_step"):
            metrics = train_step(batch, context)
        return sums_and_counts(metrics, of="train_step")
