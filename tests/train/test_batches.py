"""Batches are a pure function of (seed, step)."""

import time

import numpy as np
import pytest

from tapeline.train.data import permutation
from tapeline.train.data.batches import Ahead, Batches
from tapeline.train.data.permutation import SMALL, SMALLEST_BLOCK, permuted

plan = Batches.plan


def test_an_epoch_is_a_permutation_and_each_epoch_another():
    batches = plan(103, batch_size=10, seed=7, shuffle=True)
    assert (batches.steps_per_epoch, batches.dropped) == (10, 3)
    index = batches.indices(0, 20)
    first, second = index[:10].ravel(), index[10:].ravel()
    assert len(set(first)) == len(set(second)) == 100
    assert max(first.max(), second.max()) == 102
    assert not np.array_equal(first, second)


def test_a_step_is_the_same_wherever_one_starts():
    batches = plan(103, batch_size=10, seed=7, shuffle=True)
    whole = batches.indices(0, 40)
    for start in (1, 9, 10, 23):
        assert np.array_equal(batches.indices(start, 5), whole[start : start + 5])
    far = batches.indices(10**12, 2)
    assert np.array_equal(far[1], batches.indices(10**12 + 1, 1)[0])


def test_seeds_differ_and_order_can_be_kept():
    one, other = (plan(50, batch_size=50, seed=s, shuffle=True).indices(0, 1) for s in (1, 2))
    assert not np.array_equal(one, other)
    kept = plan(50, batch_size=5, seed=1, shuffle=False).indices(0, 10)
    assert np.array_equal(kept.ravel(), np.arange(50))


def test_more_than_two_to_the_31_examples():
    batches = plan(2**33, batch_size=64, seed=0, shuffle=True)
    index = batches.indices(5, 3)
    assert index.dtype == np.int64
    assert index.max() > 2**31


SIZES = [2, 3, 103, 2**16 - 1, 2**16, 60_000, 2**17 + 1, 2**18, 10**6, 2**31 - 5, 2**32 - 1, 2**32, 2**33, 2**62]


@pytest.mark.in_ci(1)
@pytest.mark.parametrize("size", [pytest.param(n, marks=pytest.mark.slow) if n < 100 else n for n in SIZES])
def test_a_permutation_has_the_bits_of_tensorflows(size, tf):
    random, count = np.random.default_rng(size), 500 if size > 2**10 else 50  # a small one takes 2^16 / size rounds
    index = np.concatenate([[0, size - 1], random.integers(0, size, count)])
    epochs = np.concatenate([[0, 2**32 - 1], random.integers(0, 2**32, count)])
    half = (max((size - 1).bit_length(), 16) + 1) // 2
    for seed in (0, 1, 2**31 - 1):
        keys = np.stack([np.full_like(epochs, seed), epochs, epochs >> half ^ seed >> half], 1).astype(np.uint32)
        theirs = tf.raw_ops.RandomIndexShuffle(index=index, seed=keys, max_index=np.int64(size - 1), rounds=4)
        assert np.array_equal(permuted(index[:, None], size, seed=seed, epochs=epochs)[:, 0], theirs)


@pytest.mark.parametrize("size", [1, 2, 4, 10, 103, 1000, SMALL, SMALL + 1])
def test_a_small_epochs_table_has_the_numbers_of_the_walk(size):
    """The cipher is run over a whole block once; each number is then followed by itself."""
    half, epochs = SMALLEST_BLOCK // 2, np.array([0, 3, 3, 2**32 - 1])
    index = np.stack([np.arange(size), *np.random.default_rng(size).integers(0, size, (3, size))])
    for seed in (0, 257, 2**31 - 1):
        block = np.broadcast_to(np.arange(1 << SMALLEST_BLOCK), (len(epochs), 1 << SMALLEST_BLOCK)).astype(np.uint16)
        permutation._encrypt(block, permutation._keys(seed, epochs.astype(np.uint64), half).astype(np.uint16), half)
        wanted = np.take_along_axis(block, index, 1)
        while (outside := wanted >= size).any():
            wanted = np.where(outside, np.take_along_axis(block, wanted.astype(np.int64), 1), wanted)
        assert np.array_equal(permuted(index, size, seed=seed, epochs=epochs), wanted)


def test_few_examples_are_shuffled_at_once():
    """Number by number, each of four would be encrypted 2^14 times on average: that took seconds."""
    began = time.process_time()
    ahead = Ahead(plan(4, batch_size=4, seed=0, shuffle=True))
    for step in range(20):
        assert sorted(ahead.indices(step, 1)[0]) == [0, 1, 2, 3]
    assert time.process_time() - began < 1


def test_each_seed_and_each_epoch_has_a_permutation_of_its_own():
    index = np.broadcast_to(np.arange(100), (2000, 100))
    epochs = np.concatenate([np.arange(1000), np.random.default_rng(0).integers(0, 2**16, 1000)])
    drawn = permuted(index, 100, seed=0, epochs=epochs)
    assert len(np.unique(drawn, axis=0)) == len(np.unique(epochs))
    seeds = [permuted(index[:1], 100, seed=seed, epochs=epochs[:1])[0] for seed in (0, 1, 255, 256, 257, 512, 65_535)]
    assert len(np.unique(seeds, axis=0)) == len(seeds)


def test_rows_are_permuted_as_each_alone(size=60_000):
    """A thousand numbers a row: several rows are worked on together, and not all of them at once."""
    random = np.random.default_rng(0)
    index, epochs = random.integers(0, size, (70, 1000)), random.integers(0, 200, 70)
    alone = [permuted(row[None], size, seed=1, epochs=epoch[None])[0] for row, epoch in zip(index, epochs, strict=True)]
    assert np.array_equal(permuted(index, size, seed=1, epochs=epochs), alone)


@pytest.mark.first(3)
@pytest.mark.parametrize("size", [1, 2, 103, 2**16, 2**16 + 1, 2**16 + 2, 2**18 + 1])
def test_nothing_is_left_out_or_drawn_twice(size):
    """TensorFlow's draws the first number twice and the last never, for 2**16 + 1 and 2**18 + 1."""
    for epoch in (0, 5):
        permutation = permuted(np.arange(size)[None], size, seed=3, epochs=np.array([epoch]))
        assert np.array_equal(np.sort(permutation[0]), np.arange(size))


def test_numbers_that_were_worked_out_ahead_are_the_same_in_any_order():
    batches = plan(1000, batch_size=64, seed=3, shuffle=True)
    ahead = Ahead(batches)
    for first, count in ((0, 2), (2, 2), (0, 16), (14, 3), (62, 4), (60, 2), (500, 200), (0, 1), (10**12, 3)):
        assert np.array_equal(ahead.indices(first, count), batches.indices(first, count))


def test_what_an_epoch_leaves_out_is_counted():
    for examples, size, left in ((64, 8, 0), (65, 8, 1), (71, 8, 7), (8, 8, 0)):
        assert Batches.plan(examples, batch_size=size, seed=0, shuffle=True).dropped == left
    assert Batches.drawn(8, steps_per_epoch=5, seed=0).dropped == 0


def test_what_a_recipe_draws_itself_is_not_shuffled():
    assert Batches.drawn(8, steps_per_epoch=5, seed=3) == Batches(0, 8, 3, False, 5)


def test_the_dtype_holds_every_number():
    for examples, dtype in ((1, np.int32), (2**31 - 1, np.int32), (2**31, np.int64)):
        assert Batches.plan(examples, batch_size=1, seed=0, shuffle=False).dtype is dtype
    drawn = Batches.drawn(3, steps_per_epoch=5, seed=0)
    assert drawn.dtype is np.int64
    assert drawn.indices(7, 2).tolist() == [[7, 7, 7], [8, 8, 8]]
