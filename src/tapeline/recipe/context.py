"""What a step gets besides its batch: the global step and its own seed."""

from dataclasses import dataclass

import tensorflow as tf


@dataclass(frozen=True)
class Context:
    """The global step and the run's key, both tensors inside a graph.

    step: int64 scalar, 0 at the first step of the run.
    key: int32, shape (2,), the same for the whole run.
    """

    step: tf.Tensor
    key: tf.Tensor

    @property
    def seed(self) -> tf.Tensor:
        """A stateless seed, int64 of shape (2,): a pure function of (run seed, step).

        Use `seeds` for several draws.
        """
        return tf.random.fold_in(self.key, self.step)

    def seeds(self, count: int) -> list[tf.Tensor]:
        """Return `count` stateless seeds for this step, each int64 of shape (2,), independent of each other."""
        return list(tf.unstack(tf.random.split(self.seed, count)))

    def fold_in(self, number: int) -> "Context":
        """Return a context whose seeds are independent of this one's."""
        return Context(self.step, tf.random.fold_in(self.key, number))
