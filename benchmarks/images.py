"""Random but learnable images: a pattern for each class, plus noise."""

from collections.abc import Callable

import numpy as np

from benchmarks.workload import Arrays

EVERY = 8
"""Read-only workloads use every eighth row and column: else they would measure the computation of the mean."""


def images(
    examples: int, shape: tuple[int, int, int], *, grain: int = 1, classes: int = 10, seed: int = 0
) -> Callable[[], Arrays]:
    """Return a function that makes `image`, uint8 (examples, *shape), and `label`, int64 (examples,).

    grain: width of a noise spot in pixels; single-pixel noise is unlike photographs, and JPEG cannot compress it.
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
