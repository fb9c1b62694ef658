"""Batches are a pure function of (seed, step)."""

import numpy as np
import pytest

from tapeline.errors import InputError


@pytest.fixture(scope="module")
def plan(tf):
    from tapeline.train.batches import Batches

    return Batches.plan


def test_an_epoch_is_a_permutation_and_each_epoch_another(plan, tf):
    batches = plan(103, batch_size=10, seed=7, shuffle=True)
    assert (batches.steps_per_epoch, batches.dropped) == (10, 3)
    index = batches.indices(tf.constant(0, tf.int64), 20).numpy()
    first, second = index[:10].ravel(), index[10:].ravel()
    assert len(set(first)) == len(set(second)) == 100
    assert max(first.max(), second.max()) == 102
    assert not np.array_equal(first, second)


def test_a_step_is_the_same_wherever_one_starts(plan, tf):
    batches = plan(103, batch_size=10, seed=7, shuffle=True)
    whole = batches.indices(tf.constant(0, tf.int64), 40).numpy()
    for start in (1, 9, 10, 23):
        assert np.array_equal(batches.indices(tf.constant(start, tf.int64), 5).numpy(), whole[start : start + 5])
    far = batches.indices(tf.constant(10**12, tf.int64), 2).numpy()
    assert np.array_equal(far[1], batches.indices(tf.constant(10**12 + 1, tf.int64), 1).numpy()[0])


def test_seeds_differ_and_order_can_be_kept(plan, tf):
    zero = tf.constant(0, tf.int64)
    one, other = (plan(50, batch_size=50, seed=s, shuffle=True).indices(zero, 1).numpy() for s in (1, 2))
    assert not np.array_equal(one, other)
    kept = plan(50, batch_size=5, seed=1, shuffle=False).indices(zero, 10).numpy()
    assert np.array_equal(kept.ravel(), np.arange(50))


def test_more_than_two_to_the_31_examples(plan, tf):
    batches = plan(2**33, batch_size=64, seed=0, shuffle=True)
    index = batches.indices(tf.constant(5, tf.int64), 3)
    assert index.dtype == tf.int64
    assert index.numpy().max() > 2**31


def test_one_batch_must_fit(plan):
    with pytest.raises(InputError, match="train.batch_size is 11 and the train split has 10 examples: at most 10"):
        plan(10, batch_size=11, seed=0, shuffle=True)
