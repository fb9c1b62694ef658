"""Random images that can be learned: a pattern for each class, under noise."""

from collections.abc import Callable

import numpy as np

from benchmarks.workload import Arrays


def images(examples: int, shape: tuple[int, ...], *, classes: int = 10, seed: int = 0) -> Callable[[], Arrays]:
    """Return a function that makes `image`, uint8 (examples, *shape), and `label`, int64 (examples,)."""

    def make() -> Arrays:
        random = np.random.default_rng(seed)
        patterns = random.integers(0, 128, (classes, *shape), dtype=np.uint8)
        label = random.integers(0, classes, examples)
        return {"image": patterns[label] + random.integers(0, 128, (examples, *shape), dtype=np.uint8), "label": label}

    return make
