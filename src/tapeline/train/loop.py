"""The inside: one `tf.while_loop` over steps, compiled once, with a dynamic end.

A loop runs any number of steps of a chunk and returns their metric sums, one row an epoch. Loops of 1, of 50
and of mixed lengths leave the same bits.
"""

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from tapeline.recipe import Context, Recipe
from tapeline.recipe.autograph import convert
from tapeline.recipe.metrics import sums_and_counts
from tapeline.train.feed import Feed
from tapeline.train.in_graph import InGraphValidation

EPOCHS_PER_LOOP = 64
"""Rows of the table of metric sums: how many epochs a loop may touch, the one that it only reaches included."""


class Loop:
    """A recipe's `train_step` in a compiled loop over a feed."""

    def __init__(
        self,
        recipe: Recipe,
        feed: Feed,
        *,
        key: tf.Tensor,
        seeds: Mapping[str, tf.Variable],
        mode: str,
        steps_per_epoch: int,
        validation: InGraphValidation | None = None,
    ) -> None:
        self._recipe, self._feed, self._key, self._seeds = recipe, feed, key, seeds
        self._mode, self._steps_per_epoch = mode, steps_per_epoch
        self.after_step: Callable[[], None] = lambda: None
        """Called inside the graph after each of the recipe's steps."""
        self._validation = validation
        self._measured: list[str] = []
        self._converted = convert(recipe.train_step)
        self.stop = tf.Variable(False, trainable=False, name="stop")
        self._compiled = tf.function(self._run, jit_compile=mode == "xla", autograph=False)

    @property
    def names(self) -> list[str]:
        """The metrics' names, in the order of the table's columns; known after the first trace."""
        return [*self._measured, *(self._validation.names if self._validation else ())]

    def __call__(self, chunk: Any, start: int, end: int, sums: tf.Tensor) -> tuple[int, tf.Tensor]:
        """Run the steps from `start` to before `end`, or until `stop` is set (not under XLA).

        sums: float64, shape (metrics, 2), the sums so far of the epoch of `start`.
        Returns the step reached and the table, float64 of shape (EPOCHS_PER_LOOP, metrics, 2), whose first row
        belongs to the epoch of `start`.
        """
        numbers = [tf.constant(number, tf.int64) for number in (chunk.first, start, end)]
        run: Any = self._run if self._mode == "eager" else self._compiled
        step, table = run(self._feed.columns, chunk.rows, *numbers, sums)
        return int(step), table

    def next_stop(self, step: int) -> int:
        """Return the step at which a loop that begins at `step` has filled its table."""
        return (step // self._steps_per_epoch + EPOCHS_PER_LOOP - 1) * self._steps_per_epoch

    def trace(self) -> Any:
        """Trace one step and return its concrete function, which every loop then calls."""
        rows = {name: tf.TensorSpec((None, *spec.shape), spec.dtype) for name, spec in self._feed.row_specs.items()}
        columns = {name: tf.TensorSpec(c.shape, c.dtype) for name, c in self._feed.columns.items()}
        number = tf.TensorSpec([], tf.int64)
        self._traced = tf.function(self._one, autograph=False).get_concrete_function(columns, rows, number, number)
        return self._traced

    def traces(self) -> int:
        """Return how often the loop was traced; more than one means that something changed its signature."""
        return int(self._compiled.experimental_get_tracing_count())

    def _run(
        self, columns: Any, rows: Any, first: tf.Tensor, start: tf.Tensor, end: tf.Tensor, sums: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        # All at once, because in a graph each operation in a step costs; and over the whole chunk, whose size is fixed,
        # because XLA would compile anew for each length.
        count = next(iter(rows.values())).shape[0]
        epochs = (first + tf.range(count, dtype=tf.int64)) // self._steps_per_epoch
        table_rows = tf.cast(epochs - start // self._steps_per_epoch, tf.int32)[:, None, None]
        one = self._one if tf.executing_eagerly() else self._traced

        def going(step: tf.Tensor, table: tf.Tensor) -> tf.Tensor:
            within = step < end
            return within if self._mode == "xla" else tf.logical_and(within, tf.logical_not(self.stop))

        def body(step: tf.Tensor, table: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            row = step - first
            update = one(columns, rows, row, step)
            self.after_step()
            if self._validation:
                update = tf.concat([update, self._validation(step)], 0)
            return step + 1, tf.tensor_scatter_nd_add(table, tf.gather(table_rows, row), update[None])

        empty = tf.zeros([EPOCHS_PER_LOOP - 1, len(self.names), 2], tf.float64)
        table = tf.concat([sums[None], empty], 0)
        reached, table = tf.while_loop(going, body, (start, table), parallel_iterations=1)
        return reached, table

    def _one(self, columns: Any, rows: Any, row: tf.Tensor, step: tf.Tensor) -> tf.Tensor:
        """Run one step of the recipe and return its metrics' (sum, count), float64 of shape (metrics, 2)."""
        batch = self._feed.batch(rows, columns, row)
        context = Context(step, self._key)
        for number, state in enumerate(self._seeds.values()):
            state.assign(tf.cast(context.fold_in(3 + number).seed, state.dtype))
        train_step = self._recipe.train_step if tf.executing_eagerly() else self._converted
        self._recipe._context = context
        metrics = train_step(batch, context)
        self._recipe._context = None
        self._measured, update = sums_and_counts(metrics)
        return update
