"""The input pipeline: super-batches of several steps, produced ahead of time by tf.data.

shuffle (an epoch's permutation) → batch → map (gather, `prepare`) → prefetch. With columns in RAM, only indices and
the additions of `prepare` are passed to the loop, which gathers the examples; when streaming, the examples are passed.
The loop sees the same batches either way.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tapeline.dataset.columns import release
from tapeline.recipe import Batch, Recipe
from tapeline.runtime.errors import InputError
from tapeline.runtime.untuned import untuned
from tapeline.train.data.batches import Ahead, Batches
from tapeline.train.data.callbacks import Call, callbacks
from tapeline.train.data.memory import Recycled
from tapeline.train.data.preparation import Preparation

CHUNK_BYTES = 64 << 20
"""Maximum size of a super-batch; three are alive at a time."""
CHUNK_STEPS = 4096

MAPPED_BYTES = 8 << 20
"""How much of a memory-mapped column to read before releasing its pages, but at least one step. The kernel may map many
times as much: up to 2 MB around each example."""


@dataclass(frozen=True)
class Chunk:
    """The data of the steps in [first, end)."""

    first: int
    end: int
    rows: Mapping[str, tf.Tensor]
    """Name → tensor of shape (steps, batch, ...); `INDEX` → example numbers of shape (steps, batch)."""


INDEX = ""
"""The key of the example numbers among a chunk's rows; no feature has an empty name."""


class Feed:
    """All the data that the steps of one run read.

    shards: the equal parts that each batch is cut into, along the first axis of each of its entries. Without stored
    columns each shard has a `prepare` of its own. Raises `InputError` for an entry that cannot be cut.
    """

    def __init__(
        self,
        recipe: Recipe,
        columns: Mapping[str, NDArray[Any]],
        batches: Batches,
        *,
        key: tf.Tensor,
        in_ram: bool,
        loaded: Mapping[str, tf.Tensor] | None = None,
        shards: int = 1,
    ) -> None:
        self._shards, self._stacked = shards, shards > 1 and not columns
        self._batches, self._ahead = batches, Ahead(batches)
        self._stored = columns
        self.columns: Mapping[str, tf.Tensor] = loaded or (
            {n: tf.constant(c) for n, c in columns.items()} if in_ram else {}
        )
        index = tf.TensorSpec([batches.batch_size], batches.dtype)
        stored = {name: tf.TensorSpec((batches.batch_size, *c.shape[1:]), c.dtype) for name, c in columns.items()}
        rows = {} if self.columns else stored
        self._preparation = (
            self._prepared(recipe, key, index, rows) if type(recipe).prepare is not Recipe.prepare else None
        )
        self._kept = self._preparation.kept if self._preparation else list(columns)
        if self._preparation:
            rows = {name: spec for name, spec in rows.items() if name in self._kept} | self._preparation.made
        self.row_specs = {INDEX: index} | rows if self.columns or not columns else rows
        """The type of one step's row for each name in a chunk."""
        per_step = sum(spec.dtype.size * int(np.prod(spec.shape)) for spec in self.row_specs.values())
        self.chunk_steps = max(1, min(CHUNK_STEPS, CHUNK_BYTES // max(1, per_step)))

    def _prepared(self, recipe: Recipe, key: tf.Tensor, index: tf.TensorSpec, rows: Any) -> Preparation:
        own = recipe.batch_size
        recipe.batch_size = own if self._stacked else self._batches.batch_size
        try:
            apart = self._shards if self._stacked else None
            found = Preparation(recipe, key=key, index=index, rows=rows, columns=self.columns, apart=apart)
        finally:
            recipe.batch_size = own
        for name, spec in found.made.items():
            if self._shards > 1 and not self._stacked and spec.shape[:1] != [self._batches.batch_size]:
                raise InputError(
                    f"train.shards is {self._shards}: prepare returns {name!r} of shape {tuple(spec.shape)}, which "
                    f"cannot be cut: its first axis must be the batch's {self._batches.batch_size} examples"
                )
        return found

    @property
    def traced(self) -> Any:
        """`prepare` for one step, a concrete function; None if the recipe has no `prepare`."""
        return self._preparation.traced if self._preparation else None

    def chunks(self, start: int, stop: int) -> Iterator[Chunk]:
        """Yield chunks that cover the steps in [start, stop); all have the same shape."""
        count = min(self.chunk_steps, max(1, stop - start))
        data = untuned(tf.data.Dataset.range(start, stop, count))
        with callbacks() as call:
            rows = tf.autograph.experimental.do_not_convert(lambda first: self._rows(first, count, stop, call))
            data = data.map(rows, num_parallel_calls=2, deterministic=True)
            for number, rows in enumerate(data.prefetch(1)):
                first = start + number * count
                yield Chunk(first, min(first + count, stop), rows)

    def is_repeatable(self, step: int) -> bool:
        """Return whether two calls of `prepare` give the same bytes for the same step."""
        if not self._preparation:
            return True
        index = self._ahead.indices(step, 1)
        rows = {name: tf.constant(self._stored[name][index[0]]) for name in self._preparation.read}
        twice = [self._preparation.traced(tf.constant(step, tf.int64), tf.constant(index[0]), rows) for _ in range(2)]
        return all(
            tf.io.serialize_tensor(first).numpy() == tf.io.serialize_tensor(second).numpy()
            for first, second in zip(*(tf.nest.flatten(made) for made in twice), strict=True)
        )

    def batch(self, rows: Mapping[str, tf.Tensor], columns: Mapping[str, tf.Tensor], row: tf.Tensor) -> Batch:
        """Return one step's batch from a chunk's rows, inside the loop."""
        batch = {name: value[row] for name, value in rows.items() if name != INDEX}  # `gather` would copy
        if INDEX in rows:
            index = tf.gather(rows[INDEX], row)
            batch |= {name: tf.gather(columns[name], index) for name in self._kept if name in columns}
        return batch

    def part(
        self, rows: Mapping[str, tf.Tensor], columns: Mapping[str, tf.Tensor], row: tf.Tensor, shard: int
    ) -> Batch:
        """Return one shard of one step's batch from a chunk's rows, inside the loop."""
        size = self._batches.batch_size // self._shards

        def cut(value: tf.Tensor) -> tf.Tensor:
            whole = value[row]  # in two steps: under XLA, one takes a wrong part of the second axis
            return whole[shard] if self._stacked else whole[shard * size : (shard + 1) * size]

        batch = {name: cut(value) for name, value in rows.items() if name != INDEX}
        if INDEX in rows and any(name in columns for name in self._kept):
            index = cut(rows[INDEX])
            batch |= {name: tf.gather(columns[name], index) for name in self._kept if name in columns}
        return batch

    def _rows(self, first: tf.Tensor, count: int, stop: int, call: Call) -> dict[str, tf.Tensor]:
        steps = first + tf.range(count, dtype=tf.int64)
        steps = tf.minimum(steps, tf.constant(stop - 1, tf.int64))  # `prepare` may know of no step after the last
        index = call(lambda step: self._ahead.indices(int(step), count), [first], self._batches.dtype)
        index = tf.ensure_shape(index, (count, self._batches.batch_size))
        rows = {} if self.columns else {name: self._gather(name, index, call) for name in self._stored}
        if one := self._preparation:
            passed = {name: row for name, row in rows.items() if name in one.kept}
            if one.made or one.acts:
                inputs = (steps, index, {name: rows[name] for name in one.read})  # map_fn copies each
                types = (one.made, tf.int64)  # map_fn refuses a call that returns nothing
                each, _ = tf.map_fn(lambda given: (one.traced(*given), given[0]), inputs, fn_output_signature=types)
                passed = passed | each
            rows = passed
        return {INDEX: index, **rows} if INDEX in self.row_specs else rows

    def _gather(self, name: str, index: tf.Tensor, call: Call) -> tf.Tensor:
        """Copy examples from a memory-mapped column: shape (steps, batch, *feature)."""
        column = self._stored[name]
        arrays = Recycled((*index.shape, *column.shape[1:]), column.dtype)
        at_once = max(1, MAPPED_BYTES // max(1, column[:1].nbytes * self._batches.batch_size))

        def take(numbers: NDArray[Any]) -> NDArray[Any]:
            taken = arrays.take()
            for piece in range(0, len(numbers), at_once):
                some = slice(piece, piece + at_once)
                np.take(column, numbers[some], axis=0, out=taken[some], mode="clip")  # "raise" would copy again
                release(column)
            return taken

        gathered = call(take, [index], column.dtype)
        return tf.ensure_shape(gathered, (*index.shape, *column.shape[1:]))
