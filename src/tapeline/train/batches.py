"""Which examples a step sees: a pure function of (seed, step), so that resuming needs no iterator state."""

from dataclasses import dataclass

import tensorflow as tf

from tapeline.errors import InputError


@dataclass(frozen=True)
class Batches:
    """The batches of a run: `steps_per_epoch` full ones of each permutation of all examples."""

    examples: int
    batch_size: int
    seed: int
    shuffle: bool
    steps_per_epoch: int

    @classmethod
    def plan(cls, examples: int, *, batch_size: int, seed: int, shuffle: bool) -> "Batches":
        """Return the plan for stored examples. Raises `InputError` when one batch needs more than there are."""
        if batch_size > examples:
            raise InputError(
                f"train.batch_size is {batch_size} and the train split has {examples} examples: at most {examples}"
            )
        return cls(examples, batch_size, seed, shuffle, examples // batch_size)

    @classmethod
    def drawn(cls, batch_size: int, *, steps_per_epoch: int, seed: int) -> "Batches":
        """Return the plan for a recipe that draws its training data itself: no stored examples."""
        return cls(0, batch_size, seed, False, steps_per_epoch)

    @property
    def dtype(self) -> tf.DType:
        """The dtype of example numbers; without stored examples they are the step's number."""
        return tf.int32 if 0 < self.examples < 2**31 else tf.int64

    @property
    def dropped(self) -> int:
        """How many examples of each epoch's permutation are left out, because no full batch remains."""
        return max(0, self.examples - self.steps_per_epoch * self.batch_size)

    def indices(self, first: tf.Tensor, count: int) -> tf.Tensor:
        """Return the examples of `count` steps from `first` on: int32 or int64, shape (count, batch_size).

        O(1) in the step and in the number of examples: `index_shuffle` is a bijection that needs no table
        (https://www.tensorflow.org/api_docs/python/tf/random/experimental/index_shuffle).
        """
        steps = first + tf.range(count, dtype=tf.int64)
        if not self.examples:
            return tf.repeat(steps[:, None], self.batch_size, 1)
        epoch, within = steps // self.steps_per_epoch, steps % self.steps_per_epoch
        position = tf.reshape(within[:, None] * self.batch_size + tf.range(self.batch_size, dtype=tf.int64), [-1])
        if self.shuffle:
            epochs = tf.repeat(tf.cast(epoch, tf.uint32), self.batch_size)
            seeds = tf.stack(
                [tf.fill(tf.shape(epochs), tf.constant(self.seed, tf.uint32)), epochs, tf.zeros_like(epochs)], 1
            )
            position = tf.raw_ops.RandomIndexShuffle(
                index=position, seed=seeds, max_index=tf.constant(self.examples - 1, tf.int64), rounds=4
            )
        return tf.reshape(tf.cast(position, self.dtype), [count, self.batch_size])
