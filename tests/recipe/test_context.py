"""Seeds of a step: functions of (run seed, step), as many as a recipe draws things."""

import pytest

from tapeline.recipe import Context
from tapeline.recipe.context import current, running


def test_several_seeds_of_one_step_differ_and_repeat(tf):
    def seeds(step):
        found = Context(tf.constant(step, tf.int64), tf.constant([7, 0], tf.int32)).seeds(3)
        assert all(seed.shape == (2,) and seed.dtype == tf.int64 for seed in found)
        return [tuple(seed.numpy().tolist()) for seed in found]

    assert seeds(4) == seeds(4)
    assert len({*seeds(4), *seeds(5)}) == 6


def test_the_context_of_a_step_is_known_inside_it_alone(tf):

    outer, inner = (Context(tf.constant(step, tf.int64), tf.constant([7, 0])) for step in (1, 2))
    with running(outer):
        with pytest.raises(ZeroDivisionError), running(inner):
            assert current() is inner
            raise ZeroDivisionError
        assert current() is outer
    with pytest.raises(LookupError, match="no training step is running: call this in train_step"):
        current()
