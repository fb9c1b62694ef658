"""Make random draws without an explicit seed functions of (seed, step).

Keras layers and `keras.random` draw from seed generators, whose states are variables; `tf.image.random_…` uses
stateful operations. Inside a step the engine sets the states. tf.data runs `prepare` ahead and in parallel, where no
variable can be set, so there the states become values.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import keras
import tensorflow as tf

from tapeline.recipe.context import Context, current
from tapeline.recipe.sharding import meetings
from tapeline.runtime import keras_private, tensorflow_private
from tapeline.runtime.errors import InputError

_STATES = 3
"""The first `fold_in` number for seed generators; 1 is for gradient transforms and 2 for `prepare`."""
_IMAGES = 1 << 20
"""The first `fold_in` number for image operations: beyond any number of seed generators."""


def seed_states(states: Mapping[str, tf.Variable], context: Context) -> None:
    """Set the states of seed generators for one step; neighbouring steps share no draws."""
    for number, state in enumerate(states.values()):
        state.assign(tf.cast(context.fold_in(_STATES + number).seed, state.dtype))


class LateGenerator(Exception):
    """The global generator of `keras.random` was created by the call that drew from it: call again."""


@contextmanager
def without_states(states: Mapping[str, keras.Variable], context: Context, where: str) -> Iterator[None]:
    """Make seed generators start from (seed, step) in the block, where no Keras variable changes.

    Raises `LateGenerator`, and `InputError` for a Keras variable that would have changed and for a draw inside a loop.
    """
    begun = [
        (state, tf.cast(context.fold_in(_STATES + number).seed, state.dtype))
        for number, state in enumerate(states.values())
    ]
    graph = meetings.default_graph()
    with keras.StatelessScope(state_mapping=begun) as scope:
        yield
    free = {id(state) for state in states.values()}
    late = keras_private.global_seed_state()
    if late is not None and id(late) in scope.state_mapping.keys() - free:
        raise LateGenerator
    for key, value in scope.state_mapping.items():
        if key not in free:
            raise InputError(f"{where} changes a Keras variable: change state only in train_step")
        if not tf.is_tensor(value) or (graph is not None and value.graph is not graph):
            raise InputError(_in_a_loop(where, "a Keras layer or keras.random"))


@contextmanager
def seeded_images(context: Context, where: str) -> Iterator[None]:
    """Make `tf.image.random_…` draw from (seed, step) in the block, each call with its own seed.

    A shard of a step has draws of its own, from its context.
    Raises `InputError` at a draw inside a loop or a nested `tf.function`, where each call would draw the same numbers.
    """
    drawn, graph = Counter[int](), meetings.default_graph()

    def uniform(
        shape: Any, minval: Any = 0, maxval: Any = None, dtype: Any = tf.float32, seed: Any = None
    ) -> tf.Tensor:
        if not _is_inside(graph):
            raise InputError(_in_a_loop(where, "tf.image.random_…"))
        shard = meetings.running()
        number = shard.number if shard else -1
        own = (current() if shard else context).fold_in(_IMAGES + drawn[number]).seed
        drawn[number] += 1
        if seed is not None:
            own = tf.random.fold_in(own, seed)
        return tf.random.stateless_uniform(shape, own, minval, maxval, dtype)

    with tensorflow_private.image_draws(uniform):
        yield


def _in_a_loop(where: str, what: str) -> str:
    return (
        f"{where} calls {what} inside a loop or a separate tf.function, where each call would draw the same numbers: "
        f"call it once for the whole batch, or use tf.random.stateless_… with a seed per example, from context.seed"
    )


def _is_inside(outer: Any) -> bool:
    """Return whether the current graph is `outer`, or a branch of a condition in it, which runs at most once."""
    graph = meetings.default_graph()
    while graph is not outer and tensorflow_private.is_branch(graph):
        graph = graph.outer_graph
    return graph is outer
