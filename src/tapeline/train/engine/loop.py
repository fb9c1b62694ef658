"""The inside: one `tf.while_loop` over steps, compiled once, with a dynamic end.

A loop runs any number of steps of a chunk and returns their metric sums, one row per epoch. Loops of 1, of 50
and of mixed lengths give identical results, bit for bit.
"""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tapeline.train.engine import guard
from tapeline.train.engine.in_graph import InGraphValidation
from tapeline.train.engine.step import Step

EPOCHS_PER_LOOP = 256
"""Maximum epochs that a loop may finish: each has a row in the table of sums."""
NEVER = tf.int64.max


class Loop:
    """Steps of a recipe in a compiled loop.

    after_step: called inside the graph after each step. guarded: variables that must be finite when a loop ends,
    besides the sums of the step's metrics; a validation's may be anything.
    """

    def __init__(
        self,
        step: Step,
        *,
        mode: str,
        steps_per_epoch: int,
        validation: InGraphValidation | None = None,
        after_step: Callable[[], None] = lambda: None,
        guarded: Sequence[tf.Variable] = (),
    ) -> None:
        self._step, self._mode, self._steps_per_epoch = step, mode, steps_per_epoch
        self._validation, self._after_step, self._guarded = validation, after_step, guarded
        self.stop = tf.Variable(NEVER, trainable=False, dtype=tf.int64, name="stop")
        """A running loop ends before this step (not under XLA); from another thread, 0 ends it now."""
        self.trained = list(step.names)
        """The names of the step's metrics, which come first in the table."""
        self.names = [*step.names, *(validation.names if validation else ())]
        """The metric names, in the order of the table."""
        self._compiled = tf.function(self._run, jit_compile=mode == "xla", autograph=False)

    def __call__(self, chunk: Any, start: int, end: int, sums: tf.Tensor) -> tuple[int, tf.Tensor, bool]:
        """Run the steps in [start, end), where `end` is at most `next_stop(start)`, or only up to `stop`.

        sums: float64, shape (metrics, 2), the sums so far in the epoch of `start`.
        Returns the step reached; the table, float64 of shape (epochs + 1, metrics, 2), whose first row belongs to
        the epoch of `start`; and whether the step's sums and all guarded variables are finite.
        """
        numbers = [tf.constant(number, tf.int64) for number in (chunk.first, start, end)]
        run: Any = self._run if self._mode == "eager" else self._compiled
        step, table, finite = run(self._step.feed.columns, chunk.rows, *numbers, sums)
        return int(step), table, bool(finite)

    def next_stop(self, step: int) -> int:
        """Return the step at which a loop that starts at `step` has filled its table."""
        return (step // self._steps_per_epoch + EPOCHS_PER_LOOP) * self._steps_per_epoch

    def _run(
        self, columns: Any, rows: Any, first: tf.Tensor, start: tf.Tensor, end: tf.Tensor, sums: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Loop over epochs around a loop over steps: a step adds all metrics at once, for any size of table.

        The row among the chunk's rows is counted along: `step - first` would have XLA compile anew for each `first`,
        which does not change within the loops.
        """

        def before(limit: tf.Tensor, step: tf.Tensor) -> tf.Tensor:
            return step < (limit if self._mode == "xla" else tf.minimum(limit, self.stop))

        def body(step: tf.Tensor, row: tf.Tensor, sums: tf.Tensor) -> tuple[tf.Tensor, ...]:
            update = self._step(columns, rows, row, step)
            self._after_step()
            return step + 1, row + 1, sums + update

        def epoch(
            line: tf.Tensor, step: tf.Tensor, row: tf.Tensor, sums: tf.Tensor, table: tf.Tensor
        ) -> tuple[tf.Tensor, ...]:
            last = (step // self._steps_per_epoch + 1) * self._steps_per_epoch
            limit = tf.minimum(end, last)
            step, row, sums = tf.while_loop(
                lambda step, *_: before(limit, step), body, (step, row, sums), parallel_iterations=1
            )
            entry = tf.concat([sums, self._validation(step, last)], 0) if self._validation else sums
            return line + 1, step, row, tf.zeros_like(sums), tf.tensor_scatter_nd_update(table, [[line]], entry[None])

        empty = tf.zeros([EPOCHS_PER_LOOP + 1, len(self.names), 2], tf.float64)
        begun = (tf.constant(0), start, start - first, sums[: len(self.trained)], empty)
        _, step, *_, table = tf.while_loop(lambda _, step, *__: before(end, step), epoch, begun, parallel_iterations=1)
        return step, table, guard.is_finite([table[:, : len(self.trained)], *self._guarded])
