"""A recipe's `prepare` for one step, traced: what it reads, what it passes on, what it adds."""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from tapeline.recipe import Batch, Context, Recipe, randomness, variables
from tapeline.recipe.autograph import convert
from tapeline.runtime.errors import InputError, what_is


class Preparation:
    """`prepare` as a concrete function of (step, example numbers, the rows it reads).

    index, rows: types of one step's example numbers and stored rows. columns: columns in memory, by name.
    apart: how often it is called for one step, each time for one shard, and the results stacked; None is once for all.
    """

    def __init__(
        self,
        recipe: Recipe,
        *,
        key: tf.Tensor,
        index: tf.TensorSpec,
        rows: Mapping[str, tf.TensorSpec],
        columns: Mapping[str, tf.Tensor],
        apart: int | None = None,
    ) -> None:
        self._recipe, self._key, self._columns, self._apart = recipe, key, columns, apart
        self._converted = convert(recipe.prepare)
        traced, kept = self._trace(index, rows, unread={})
        self.read = [name for name, row in zip(sorted(rows), traced.inputs[2:], strict=False) if row.consumers()]
        """The stored rows that `prepare` reads."""
        read = {name: rows[name] for name in self.read}
        if unread := {name: spec for name, spec in rows.items() if name not in read}:
            traced, kept = self._trace(index, read, unread)
        self.traced: Any = traced
        self.kept = kept
        """The columns that `prepare` passes on unchanged."""
        self.made = {n: tf.TensorSpec(out.shape, out.dtype) for n, out in traced.structured_outputs.items()}
        """What it adds or changes: name → type of one step's value."""
        self.acts = any(operation.op_def.is_stateful for operation in traced.graph.get_operations())
        """Whether it does something besides, such as `tf.debugging.assert_…` or `tf.print`."""

    def _trace(self, index: tf.TensorSpec, read: Any, unread: Mapping[str, tf.TensorSpec]) -> tuple[Any, list[str]]:
        """Return `prepare` for one step; columns it does not read are replaced by zeros of the same shape."""
        kept: list[str] = []

        def one(step: tf.Tensor, index: tf.Tensor, rows: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
            nothing = {name: tf.zeros(spec.shape, spec.dtype) for name, spec in unread.items()}  # pruned from the graph
            kept[:], made = self._of_shards(step, index) if self._apart else self._one(step, index, {**nothing, **rows})
            return made

        step = tf.TensorSpec([], tf.int64)
        return tf.function(one, autograph=False).get_concrete_function(step, index, read), kept

    def _of_shards(self, step: tf.Tensor, index: tf.Tensor) -> tuple[list[str], dict[str, tf.Tensor]]:
        """Return what `prepare` generates for each shard, shape (shards, *one shard's)."""
        each = [self._one(step, index, {}, shard=number)[1] for number in range(self._apart or 0)]
        return [], {name: tf.stack([made[name] for made in each]) for name in each[0]}

    def _one(
        self, step: tf.Tensor, index: tf.Tensor, rows: Mapping[str, tf.Tensor], *, shard: int | None = None
    ) -> tuple[list[str], dict[str, tf.Tensor]]:
        """Return the names that `prepare` passed on, and what it added to or changed in one step's batch."""
        batch = {**rows, **{name: tf.gather(column, index) for name, column in self._columns.items()}}
        whole = Context(step, self._key)
        prepared = self._call(batch, (whole if shard is None else whole.shard(shard)).fold_in(2))
        if not isinstance(prepared, Mapping):
            what = what_is(prepared)
            raise InputError(f"prepare returns {what}: return the batch, such as {{**batch, 'noise': noise}}")
        kept = [name for name, value in prepared.items() if value is batch.get(name)]
        return kept, {name: _dense(name, value) for name, value in prepared.items() if name not in kept}

    def _call(self, batch: Batch, context: Context) -> Batch:
        """Call `prepare` with all random draws made functions of (seed, step)."""
        for attempt in ("first", "last"):
            states = variables.find(self._recipe).generators
            try:
                with (
                    randomness.without_states(states, context, "prepare"),
                    randomness.seeded_images(context, "prepare"),
                ):
                    prepared: Batch = self._converted(dict(batch), context)
                return prepared
            except randomness.LateGenerator:
                assert attempt == "first", "the generator is made once"
        raise AssertionError


def _dense(name: str, value: Any) -> tf.Tensor:
    """Return an entry of the batch as a tensor. Raises `InputError` if it has not one shape in all steps."""
    if isinstance(value, tf.RaggedTensor | tf.SparseTensor | Mapping):
        raise InputError(
            f"prepare returns {name!r} as a {type(value).__name__}: return dense tensors, such as `to_tensor(shape=…)` "
            f"of a ragged one, each under its own name"
        )
    tensor = tf.convert_to_tensor(value)
    if not tensor.shape.is_fully_defined():
        raise InputError(
            f"prepare returns {name!r} of shape {tensor.shape}, which may change from step to step: use a mask instead "
            "of `tf.boolean_mask`, pad it, or set its shape with `tf.ensure_shape`"
        )
    return tensor
