"""A permutation of any size that is computed number by number: no table, and the same cost at every place.

It gives the bits of TensorFlow's `RandomIndexShuffle` in its four rounds, several times as fast: that operation makes
its keys anew for each number. For 2^16 + 1, 2^18 + 1, 2^20 + 1 … numbers it is no permutation either: its block lacks
a bit, so that the last number goes where the first goes. This one is a permutation there too.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

SMALLEST_BLOCK = 16
"""Bits; smaller ciphers leave patterns."""
AT_ONCE = 1 << 15
"""How many numbers are worked on together: they and what is in between stay in a core's cache."""
_CONSTANT = 0xFFFFFFFC ^ 1
"""What the cipher's key schedule mixes into the fourth round's key: its constant, and the first bit of its sequence."""

Words = NDArray[Any]
"""uint16, uint32 or uint64."""


def permuted(index: NDArray[Any], size: int, *, seed: int, epochs: NDArray[np.int64]) -> NDArray[Any]:
    """Return where each number of `index` goes in its epoch's permutation of 0 … size - 1.

    index: integers of shape (rows, numbers); epochs: shape (rows,). Returns the shape and dtype of `index`.

    A cipher on blocks of as many bits as `size` needs is a bijection; what falls outside of `size` goes through it
    again until it falls inside (Black and Rogaway 2002, "Ciphers with arbitrary finite domains"). The cipher is Simon
    (Beaulieu et al. 2013, https://eprint.iacr.org/2013/404) in four rounds.
    """
    half = (max((size - 1).bit_length(), SMALLEST_BLOCK) + 1) // 2
    kind = np.dtype(f"u{max(2, 1 << (2 * half - 1).bit_length() >> 3)}")  # the smallest with room for a block
    numbers: Words = index.astype(kind, order="C")
    keys: Words = _keys(seed, epochs.astype(np.uint64), half).astype(kind)
    _encrypt(numbers, keys, half)
    flat, width = numbers.reshape(-1), index.shape[1]
    outside = np.flatnonzero(flat >= size)
    while len(outside):
        again = flat[outside, None]
        _encrypt(again, keys[outside // width], half)
        flat[outside] = again[:, 0]
        outside = outside[again[:, 0] >= size]
    return numbers.astype(index.dtype)


def _keys(seed: int, epochs: NDArray[np.uint64], half: int) -> NDArray[np.uint64]:
    """Return the key of each round, shape (rows, 4).

    Keys have half a block's bits. The third holds those of seed and epoch that the first two have no room for, so
    that with 8 bits the first 2^16 epochs of a seed differ, and an epoch in the first 2^16 seeds.
    """
    ones, width = np.uint64((1 << half) - 1), np.uint64(half)
    third = ((epochs >> width) ^ np.uint64(seed >> half)) & ones
    twice = third << width | third  # turned by a shift
    fourth = np.uint64(_CONSTANT ^ seed) ^ twice >> np.uint64(3) ^ twice >> np.uint64(4)
    return np.stack([np.full_like(epochs, seed), epochs, third, fourth], axis=1) & ones


def _encrypt(numbers: Words, keys: Words, half: int) -> None:
    """Replace each number of two words of `half` bits by its cipher. keys: shape (rows, 4)."""
    kind = numbers.dtype.type
    mask, width = kind((1 << half) - 1), kind(half)
    rows = max(1, AT_ONCE // numbers.shape[1])
    for start in range(0, len(numbers), rows):
        block = numbers[start : start + rows]
        left, right = block >> width, block & mask
        twice, turned = np.empty_like(block), np.empty_like(block)
        words = ((left, right), (right, left)) * 2
        for (into, word), key in zip(words, keys[start : start + rows].T, strict=True):
            # into ^= (word turned by 1 & by 8) ^ by 2 ^ key: a word that stands there twice is turned by a shift
            np.left_shift(word, width, out=twice)
            np.bitwise_or(twice, word, out=twice)
            np.right_shift(twice, kind(half - 2), out=turned)
            np.bitwise_xor(into, turned, out=into)
            np.right_shift(twice, kind(half - 1), out=turned)
            np.right_shift(twice, kind(half - 8), out=twice)
            np.bitwise_and(twice, turned, out=twice)
            np.bitwise_xor(into, twice, out=into)
            np.bitwise_and(into, mask, out=into)
            np.bitwise_xor(into, key[:, None], out=into)
        np.left_shift(left, width, out=left)
        np.bitwise_or(left, right, out=block)
