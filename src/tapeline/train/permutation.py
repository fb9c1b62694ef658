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
AT_ONCE = 1 << 14
"""How many numbers are worked on together: they and what is in between stay in a core's cache."""
_CONSTANT = 0xFFFFFFFC ^ 1
"""What the cipher's key schedule mixes into the fourth round's key: its constant, and the first bit of its sequence."""

Words = NDArray[Any]
"""uint32 or uint64."""


def permuted(index: NDArray[np.int64], size: int, *, seed: int, epochs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where each number of `index` goes in its epoch's permutation of 0 … size - 1.

    index, epochs: shape (n,); each (seed, epoch) has a permutation of its own. Returns int64 of shape (n,).

    A cipher on blocks of as many bits as `size` needs is a bijection; what falls outside of `size` goes through it
    again until it falls inside (Black and Rogaway 2002, "Ciphers with arbitrary finite domains"). The cipher is Simon
    (Beaulieu et al. 2013, https://eprint.iacr.org/2013/404) in four rounds with the key (seed, epoch, 0).
    """
    half = (max((size - 1).bit_length(), SMALLEST_BLOCK) + 1) // 2
    kind = np.uint32 if half <= 16 else np.uint64  # room for a word of half a block, twice
    numbers: Words = index.astype(kind)
    keys: Words = epochs.astype(kind)
    _encrypt(numbers, keys, half, seed)
    outside = np.flatnonzero(numbers >= size)
    while len(outside):
        again = numbers[outside]
        _encrypt(again, keys[outside], half, seed)
        numbers[outside] = again
        outside = outside[again >= size]
    return numbers.astype(np.int64)


def _encrypt(numbers: Words, keys: Words, half: int, seed: int) -> None:
    """Replace each number of two words of `half` bits by its cipher. keys: the second round's, shape of `numbers`."""
    kind = numbers.dtype.type
    mask, width = kind((1 << half) - 1), kind(half)
    first, last = kind(seed) & mask, kind(_CONSTANT ^ seed) & mask
    for start in range(0, len(numbers), AT_ONCE):
        block, key = numbers[start : start + AT_ONCE], keys[start : start + AT_ONCE] & mask
        left, right = block >> width, block & mask
        twice, turned = np.empty_like(block), np.empty_like(block)
        for into, word, round_key in (
            (left, right, first),
            (right, left, key),
            (left, right, None),
            (right, left, last),
        ):
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
            if round_key is not None:
                np.bitwise_xor(into, round_key, out=into)
        np.left_shift(left, width, out=left)
        np.bitwise_or(left, right, out=block)
