"""What a step gets in addition to its batch: the global step and its own seed."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import tensorflow as tf

from tapeline.runtime.errors import InputError


@dataclass(frozen=True)
class Context:
    """The global step and the run's random key, both tensors inside a graph.

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
        """Return a context whose seeds are independent of this one's. For the engine: a recipe takes `seeds`.

        With 2, for example, it is the one that `prepare` gets.
        """
        return Context(self.step, tf.random.fold_in(self.key, number))

    def shard(self, number: int) -> "Context":
        """Return the context of one shard of the step's batch; each shard, also the first, draws its own numbers."""
        return self.fold_in(_SHARDS + number)


class Measuring(Context):
    """The context of a batch of `eval_step`: seeds by the batch's number, which is no step."""

    number: tf.Tensor

    def __init__(self, number: tf.Tensor, key: tf.Tensor) -> None:
        vars(self).update(number=number, key=key)

    @property
    def step(self) -> tf.Tensor:
        """The global step. Raises `InputError`: validate would measure with another one than training did."""
        raise InputError(
            "context.step is known in training only (prepare and train_step), so that validate would measure with "
            "another one: in eval_step use context.seed for draws, and for an annealed number a tf.Variable of the "
            "recipe that train_step sets"
        )

    @property
    def seed(self) -> tf.Tensor:
        """A stateless seed, int64 of shape (2,): a pure function of (run seed, number of the batch)."""
        return tf.random.fold_in(self.key, self.number)

    def fold_in(self, number: int) -> Context:
        """Return a context whose seeds are independent of this one's."""
        return Measuring(self.number, tf.random.fold_in(self.key, number))


_SHARDS = 1 << 28
"""The first `fold_in` number for shards: beyond those of all else that draws in a step."""
_running: ContextVar[Context] = ContextVar("running")


@contextmanager
def running(context: Context) -> Iterator[None]:
    """Make `context` the one that `current` returns in the block, in which a training step is traced or run."""
    token = _running.set(context)
    try:
        yield
    finally:
        _running.reset(token)


def current() -> Context:
    """Return the context of the training step that is traced or run. Raises `LookupError` outside of one."""
    context = _running.get(None)
    if context is None:
        raise LookupError("no training step is running: call this in train_step, where the step's seed is known")
    return context
