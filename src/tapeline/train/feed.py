"""The input pipeline: super-batches of several steps, made ahead of time by tf.data.

shuffle (an epoch's permutation) → batch → map (gather, `prepare`) → prefetch. From RAM only indices and what
`prepare` drew travel to the loop, which gathers by itself; streamed, whole columns do. The loop sees the same
batches either way.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tapeline.recipe import Batch, Context, Recipe
from tapeline.recipe.evaluation import convert
from tapeline.train.batches import Batches

CHUNK_BYTES = 32 << 20
"""How much of a super-batch is made at once; three are alive at a time."""
CHUNK_STEPS = 4096


@dataclass(frozen=True)
class Chunk:
    """The material of the steps from `first` to before `end`."""

    first: int
    end: int
    rows: Mapping[str, tf.Tensor]
    """Name → tensor of shape (steps, batch, ...); `INDEX` → example numbers of shape (steps, batch)."""


INDEX = ""
"""The key of the example numbers among a chunk's rows; no feature has an empty name."""


class Feed:
    """Everything that the steps of one run read."""

    def __init__(
        self, recipe: Recipe, columns: Mapping[str, NDArray[Any]], batches: Batches, *, key: tf.Tensor, in_ram: bool
    ) -> None:
        self._recipe, self._batches, self._key = recipe, batches, key
        self._stored = columns
        self.columns: Mapping[str, tf.Tensor] = {n: tf.constant(c) for n, c in columns.items()} if in_ram else {}
        self._prepares = type(recipe).prepare is not Recipe.prepare
        self._kept: list[str] = list(columns)
        self.row_specs = self._specs()
        per_step = sum(spec.dtype.size * int(np.prod(spec.shape)) for spec in self.row_specs.values())
        self.chunk_steps = max(1, min(CHUNK_STEPS, CHUNK_BYTES // max(1, per_step)))

    def chunks(self, start: int, stop: int) -> Iterator[Chunk]:
        """Yield chunks that cover the steps from `start` to before `stop`; all have the same shape."""
        count = min(self.chunk_steps, max(1, stop - start))
        data = tf.data.Dataset.range(start, stop, count)
        data = data.map(lambda first: self._rows(first, count), num_parallel_calls=2, deterministic=True)
        for number, rows in enumerate(data.prefetch(1)):
            first = start + number * count
            yield Chunk(first, min(first + count, stop), rows)

    def batch(self, rows: Mapping[str, tf.Tensor], columns: Mapping[str, tf.Tensor], row: tf.Tensor) -> Batch:
        """Return one step's batch out of a chunk's rows, inside the loop."""
        batch = {name: tf.gather(value, row) for name, value in rows.items() if name != INDEX}
        if INDEX in rows:
            index = tf.gather(rows[INDEX], row)
            batch |= {name: tf.gather(columns[name], index) for name in self._kept if name in columns}
        return batch

    def _specs(self) -> dict[str, tf.TensorSpec]:
        traced = tf.function(lambda first: self._rows(first, 1)).get_concrete_function(tf.TensorSpec([], tf.int64))
        return {name: tf.TensorSpec(row.shape[1:], row.dtype) for name, row in traced.structured_outputs.items()}

    def _rows(self, first: tf.Tensor, count: int) -> dict[str, tf.Tensor]:
        steps = first + tf.range(count, dtype=tf.int64)
        if not self._stored:  # a recipe that draws its data in `prepare` or in the step
            numbers = tf.repeat(steps[:, None], self._batches.batch_size, 1)
            return {INDEX: numbers, **(self._prepared(steps, numbers, {}) if self._prepares else {})}
        index = self._batches.indices(first, count)
        rows = {} if self.columns else {name: self._gather(name, index) for name in self._stored}
        if self._prepares:
            rows = self._prepared(steps, index, rows)
        return {INDEX: index, **rows} if self.columns else rows

    def _prepared(self, steps: tf.Tensor, index: tf.Tensor, rows: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Return what `prepare` added to or changed in each step's batch; columns it passed on are not copied."""
        passed: list[str] = []

        def one(inputs: tuple[tf.Tensor, tf.Tensor, Mapping[str, tf.Tensor]]) -> dict[str, tf.Tensor]:
            step, own_index, own_rows = inputs
            batch = {**own_rows, **{name: tf.gather(column, own_index) for name, column in self.columns.items()}}
            prepared = convert(self._recipe.prepare)(dict(batch), Context(step, self._key).fold_in(2))
            passed[:] = [name for name, value in prepared.items() if value is batch.get(name)]
            return {name: tf.convert_to_tensor(value) for name, value in prepared.items() if name not in passed}

        batch_specs = {
            n: tf.TensorSpec((self._batches.batch_size, *c.shape[1:]), c.dtype) for n, c in self._stored.items()
        }
        specs = tf.function(one).get_concrete_function(
            (
                tf.TensorSpec([], tf.int64),
                tf.TensorSpec(index.shape[1:], index.dtype),
                {} if self.columns else batch_specs,
            )
        )
        signature = {name: tf.TensorSpec(out.shape, out.dtype) for name, out in specs.structured_outputs.items()}
        made = tf.map_fn(one, (steps, index, dict(rows)), fn_output_signature=signature) if signature else {}
        self._kept = list(passed)
        return {**{name: row for name, row in rows.items() if name in passed}, **made}

    def _gather(self, name: str, index: tf.Tensor) -> tf.Tensor:
        """Copy examples out of a memory-mapped column: shape (steps, batch, *feature)."""
        column = self._stored[name]
        gathered = tf.numpy_function(lambda numbers: np.take(column, numbers, axis=0), [index], column.dtype)
        return tf.ensure_shape(gathered, (*index.shape, *column.shape[1:]))
