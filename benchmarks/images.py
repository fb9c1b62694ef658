"""Random images that can be learned: a pattern for each class, under noise."""

from collections.abc import Callable

import numpy as np

from benchmarks.workload import Arrays

EVERY = 8
"""Workloads that only read look at every eighth line and column: else they would measure how one takes a mean."""


def images(
    examples: int, shape: tuple[int, int, int], *, grain: int = 1, classes: int = 10, seed: int = 0
) -> Callable[[], Arrays]:
    """Return a function that makes `image`, uint8 (examples, *shape), and `label`, int64 (examples,).

    grain: width of a spot of noise in pixels; single pixels are what no photograph holds and no JPEG can shrink.
    """

    def make() -> Arrays:
        random = np.random.default_rng(seed)
        height, width, colours = shape
        coarse = (height // grain, width // grain, colours)
        patterns = random.integers(0, 128, (classes, *coarse), dtype=np.uint8)
        label = random.integers(0, classes, examples)
        image = patterns[label] + random.integers(0, 128, (examples, *coarse), dtype=np.uint8)
        return {"image": image.repeat(grain, 1).repeat(grain, 2), "label": label}

    return make
