"""Derive a learning rate from the losses of a range test: pure functions on NumPy arrays.

The loss is smoothed with a centred window, so that the curve is not shifted to higher rates, and converted to the
logarithm of its ratio to the first loss: the slope is then the share of the loss that a rate removes, which for a
quadratic is largest at the best rate. Only a loss that is never negative has such a ratio; any other is used as it
is.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

DIVERGED = 4.0
"""The test ends when the trailing mean of the loss exceeds its best value by this factor."""
MEMORY = 0.8
"""Decay of the trailing mean: the share that each step keeps."""
FLOOR = 1e-3
"""Share of the first loss below which a loss counts as zero, so that noise around zero is not a fall or divergence."""
WINDOW = 1 / 40
"""Standard deviation of the smoothing window, as a share of the number of steps."""
FALL = 0.1
"""If the loss falls by less than this share, no rate is suggested."""
SAFETY = 4.0
"""The test passes rates that would diverge if held, before the loss shows it: a safe rate is this factor below the
rate at the lowest loss."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Suggestion:
    """Learning rates, in ascending order."""

    low: float
    """Where the loss begins to fall: the lower bound of a cyclic rate."""
    rate: float
    """Where the loss falls fastest."""
    high: float
    """Where the fall is almost over, or `SAFETY` below the lowest loss's rate: the upper bound of a cyclic rate."""


class Watch:
    """Detects after each step whether the loss has diverged, with a bias-corrected trailing mean."""

    def __init__(self) -> None:
        self._mean, self._weight, self._best, self._first = 0.0, 0.0, np.inf, 0.0

    def diverged(self, loss: float) -> bool:
        """Add one step's loss; return whether it is not finite, or the mean is more than 3 × |best| above the best."""
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
    """Return the mean under a Gaussian window, truncated at both ends: shape (steps,).

    The mean is geometric if no loss is negative, so that the end of a divergence does not affect earlier steps.
    """
    values = np.asarray(losses, np.float64)
    place = np.arange(len(values))
    weights = np.exp(-0.5 * ((place[:, None] - place) / max(1.0, window * len(values))) ** 2)
    weights /= weights.sum(1, keepdims=True)
    has_ratios = _has_ratios(losses)
    mean: Floats = weights @ (np.log(np.maximum(values, FLOOR * _first(losses))) if has_ratios else values)
    return np.exp(mean) if has_ratios else mean


def suggest(rates: Sequence[float], losses: Sequence[float]) -> Suggestion | None:
    """Return the rates to use, or `None` if the loss does not fall clearly.

    rates: ascending. losses: finite, one per rate, up to divergence.
    """
    if len(losses) < 4:
        return None
    mean, first = smooth(losses), _first(losses)
    fall = mean[0] - mean.min()
    if fall <= max(FALL * abs(first), float(np.std(losses[: _early(losses)]))):
        return None
    bottom = int(np.flatnonzero(mean <= mean.min() + 0.01 * fall)[-1])
    # The slope uses a wider window and also the losses after the bottom, so that it avoids the edge.
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
    """Return how many initial steps, whose rate is too low to have an effect, define the first loss."""
    return max(2, len(losses) // 20)


def rounded(rate: float) -> float:
    """Return a rate rounded to two significant digits."""
    return float(f"{rate:.1e}")
