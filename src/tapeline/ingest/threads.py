"""How many threads parse, decode and resize: on all cores, as far as the work releases Python's lock."""

from tapeline.runtime import environment

MOST = 32
"""Threads, however many cores there are: beyond, Python's lock is what they wait for."""


def threads(*, per_core: int = 1, most: int = MOST) -> int:
    """Return how many threads to work in: `per_core`, more than one where they wait for others, and at most `most`."""
    return min(per_core * min(environment.cores(), MOST), most)
