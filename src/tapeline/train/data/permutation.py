"""A permutation of any size: a number costs the same at every position, and a small epoch at most about 1 ms.

It equals TensorFlow's `RandomIndexShuffle` with four rounds, bit for bit, but is several times as fast: that operation
recomputes its keys for each number. For 2^16 + 1, 2^18 + 1, 2^20 + 1 … numbers that operation is not a permutation: its
block is one bit short, so that the last number maps to the same place as the first. This one is a permutation there.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

SMALLEST_BLOCK = 16
"""Bits; ciphers on smaller blocks leave patterns."""
SMALL = 1 << 14
"""Sizes up to which an epoch gets a table: number by number, each would be encrypted 2^16 / size times."""
AT_ONCE = 1 << 15
"""Numbers to process together: they and the intermediate results stay in a core's cache."""
_CONSTANT = 0xFFFFFFFC ^ 1
"""What the cipher's key schedule mixes into the fourth key: its constant, and the first bit of its sequence."""

Words = NDArray[Any]
"""uint16, uint32 or uint64."""


def permuted(index: NDArray[Any], size: int, *, seed: int, epochs: NDArray[np.int64]) -> NDArray[Any]:
    """Return the image of each number of `index` under its epoch's permutation of 0 … size - 1.

    index: integers of shape (rows, numbers); epochs: shape (rows,). Returns the shape and dtype of `index`.

    A cipher on blocks of as many bits as `size` needs is a bijection; results outside `size` are encrypted again until
    they fall inside (Black and Rogaway 2002, "Ciphers with arbitrary finite domains"). The cipher is Simon
    (Beaulieu et al. 2013, https://eprint.iacr.org/2013/404) with four rounds.
    """
    if size == 1 or not index.size:
        return np.zeros_like(index)
    half = (max((size - 1).bit_length(), SMALLEST_BLOCK) + 1) // 2
    if size <= SMALL:
        each, rows = np.unique(epochs, return_inverse=True)
        tables = np.stack([_table(size, key, half) for key in _keys(seed, each.astype(np.uint64), half)[:, None]])
        images: Words = tables[rows[:, None], index]
        return images.astype(index.dtype)
    kind = np.dtype(f"u{max(2, 1 << (2 * half - 1).bit_length() >> 3)}")  # the smallest dtype that holds a block
    numbers: Words = index.astype(kind, order="C")
    keys: Words = _keys(seed, epochs.astype(np.uint64), half).astype(kind)
    _encrypt(numbers, keys, half)
    width = index.shape[1]

    def encrypted(outside: Words, places: NDArray[np.intp]) -> Words:
        _encrypt(outside[:, None], keys[places // width], half)
        return outside

    _walk(numbers.reshape(-1), size, encrypted)
    return numbers.astype(index.dtype)


def _table(size: int, key: NDArray[np.uint64], half: int) -> Words:
    """Return the images of 0 … size - 1, at most 2^16, under the permutation of one key of shape (1, 4).

    The whole block is encrypted once. Where numbers return to a quarter of it follows in few steps each; from these,
    where they return to a quarter of that, and so on: time linear in the block, whatever the size.
    """
    block = np.arange(1 << 2 * half, dtype=np.uint16)[None]
    _encrypt(block, key.astype(np.uint16), half)
    images: Words = block[0]
    while len(images) > size:
        images = _narrowed(images, max(size, len(images) // 4))
    return images.copy()


def _narrowed(images: Words, size: int) -> Words:
    """Return the images of 0 … size - 1 under a permutation of a wider range, followed until they are among these."""
    inner = images[:size]
    _walk(inner, size, lambda outside, places: images[outside])
    return inner


def _walk(numbers: Words, size: int, following: Callable[[Words, NDArray[np.intp]], Words]) -> None:
    """Replace in place each number outside `size` by the one following it, until it is inside.

    following: takes the numbers outside and their places in `numbers`.
    """
    places = np.flatnonzero(numbers >= size)
    while len(places):
        numbers[places] = outside = following(numbers[places], places)
        places = places[outside >= size]


def _keys(seed: int, epochs: NDArray[np.uint64], half: int) -> NDArray[np.uint64]:
    """Return the key of each round, shape (rows, 4).

    A key has half the bits of a block. The third takes the bits of seed and epoch that do not fit in the first two, so
    that with 8 bits the first 2^16 epochs of a seed differ, and so does an epoch across the first 2^16 seeds.
    """
    ones, width = np.uint64((1 << half) - 1), np.uint64(half)
    third = ((epochs >> width) ^ np.uint64(seed >> half)) & ones
    twice = third << width | third  # a shift of the doubled key rotates it
    fourth = np.uint64(_CONSTANT ^ seed) ^ twice >> np.uint64(3) ^ twice >> np.uint64(4)
    return np.stack([np.full_like(epochs, seed), epochs, third, fourth], axis=1) & ones


def _encrypt(numbers: Words, keys: Words, half: int) -> None:
    """Encrypt each number, two words of `half` bits, in place. keys: shape (rows, 4)."""
    kind = numbers.dtype.type
    mask, width = kind((1 << half) - 1), kind(half)
    rows = max(1, AT_ONCE // numbers.shape[1])
    for start in range(0, len(numbers), rows):
        block = numbers[start : start + rows]
        left, right = block >> width, block & mask
        twice, turned = np.empty_like(block), np.empty_like(block)
        words = ((left, right), (right, left)) * 2
        for (into, word), key in zip(words, keys[start : start + rows].T, strict=True):
            # into ^= (rotl(word, 1) & rotl(word, 8)) ^ rotl(word, 2) ^ key: a shift of the doubled word rotates it
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
