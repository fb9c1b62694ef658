"""From the losses of a range test to a learning rate: pure functions on NumPy arrays.

The loss is smoothed by a window that is centred, so that the curve is not shifted to higher rates, and looked at
as the logarithm of its ratio to the first one: its slope is then how much of the loss a rate takes away, which for
a quadratic is greatest at the best rate. Only a loss that is never negative has such a ratio; another one is taken
as it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

DIVERGED = 4.0
"""A trailing mean of the loss beyond so many times its best ends the test."""
MEMORY = 0.8
"""Of the trailing mean: each step keeps so much of it."""
FLOOR = 1e-3
"""Of the first loss: what is below counts as zero, so that noise around zero is no fall and no divergence."""
WINDOW = 1 / 40
"""Standard deviation of the smoothing window / number of steps."""
FALL = 0.1
"""A loss that falls by less than this share falls nowhere: no rate is suggested."""
SAFETY = 4.0
"""The test passes a rate that would diverge if it stayed before the loss shows it: so far below the rate at the lowest
loss a rate can stay."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Suggestion:
    """Learning rates, in ascending order."""

    low: float
    """Where the loss has begun to fall: the lower bound of a cyclic rate."""
    rate: float
    """Where it falls fastest."""
    high: float
    """Where the fall is almost over, or `SAFETY` below where the loss rises: the upper bound of a cyclic rate."""


class Watch:
    """Says after each step whether the loss has diverged, by a trailing mean that corrects for its start."""

    def __init__(self) -> None:
        self._mean, self._weight, self._best, self._first = 0.0, 0.0, np.inf, 0.0

    def diverged(self, loss: float) -> bool:
        """Take one step's loss. Not finite counts, and so does 4 × the best; for a negative best the same distance."""
        if not np.isfinite(loss):
            return True
        if not self._weight:
            self._first = abs(loss)
        self._mean = MEMORY * self._mean + (1 - MEMORY) * loss
        self._weight = MEMORY * self._weight + (1 - MEMORY)
        level = self._mean / self._weight
        self._best = min(self._best, level)
        return level - self._best > (DIVERGED - 1) * max(abs(self._best), 10 * FLOOR * self._first)


def smooth(losses: Sequence[float], window: float = WINDOW) -> Floats:
    """Return the mean under a Gaussian window, cut off at both ends: shape (steps,). Geometric where none is negative,
    so that the end of a divergence does not reach back.
    """
    values = np.asarray(losses, np.float64)
    place = np.arange(len(values))
    weights = np.exp(-0.5 * ((place[:, None] - place) / max(1.0, window * len(values))) ** 2)
    weights /= weights.sum(1, keepdims=True)
    has_ratios = _has_ratios(losses)
    mean: Floats = weights @ (np.log(np.maximum(values, FLOOR * _first(losses))) if has_ratios else values)
    return np.exp(mean) if has_ratios else mean


def suggest(rates: Sequence[float], losses: Sequence[float]) -> Suggestion | None:
    """Return the rates to use, or `None` where the loss falls nowhere.

    rates: ascending. losses: finite, one a rate, up to divergence.
    """
    if len(losses) < 4:
        return None
    mean, first = smooth(losses), _first(losses)
    fall = mean[0] - mean.min()
    if fall <= max(FALL * abs(first), float(np.std(losses[: _early(losses)]))):
        return None
    bottom = int(np.flatnonzero(mean <= mean.min() + 0.01 * fall)[-1])
    # The slope sees what comes after the bottom too, which keeps it away from the edge, and by a wider window.
    wide = smooth(losses, 2 * WINDOW)
    height, slope_of = (np.log(mean), np.log(wide)) if _has_ratios(losses) else (mean, wide)
    fallen = (height[0] - np.minimum.accumulate(height)) / (height[0] - height.min())
    begun, ended = int((fallen >= 0.1).argmax()), int((fallen >= 0.95).argmax())
    safe = int(np.searchsorted(rates, rates[bottom] / SAFETY))
    ended = max(begun, min(ended, safe))
    steepest = begun + int(np.gradient(slope_of, np.log(rates))[begun : ended + 1].argmin())
    return Suggestion(rates[begun], rates[steepest], rates[ended])


def _has_ratios(losses: Sequence[float]) -> bool:
    return min(losses) >= 0 and _first(losses) > 0


def _first(losses: Sequence[float]) -> float:
    return float(np.mean(losses[: _early(losses)]))


def _early(losses: Sequence[float]) -> int:
    """Return how many steps at the start, where the rate is too low to do anything, say what the first loss is."""
    return max(2, len(losses) // 20)


def rounded(rate: float) -> float:
    """Return a rate with two significant digits, as people write it."""
    return float(f"{rate:.1e}")
