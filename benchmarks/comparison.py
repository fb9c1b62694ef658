"""Statistics of the rounds' speeds: medians, spread, the best of each family, ratios of medians."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Figures:
    """A contender's results. Speeds are in steps per second."""

    family: str
    setting: str
    speeds: Sequence[float]

    @property
    def median(self) -> float:
        """The speed that is compared."""
        return statistics.median(self.speeds)

    @property
    def spread(self) -> float:
        """Half of the interquartile range, as a share of the median; 0 for a single round."""
        if len(self.speeds) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.speeds, n=4, method="inclusive")
        return (high - low) / 2 / self.median


def best_of_families(all_figures: Iterable[Figures]) -> dict[str, Figures]:
    """Return the fastest setting of each family: each peer is compared at its best."""
    best: dict[str, Figures] = {}
    for figures in all_figures:
        if figures.family not in best or figures.median > best[figures.family].median:
            best[figures.family] = figures
    return best


STEADY = 0.05
"""The spread above which a speed is not compared."""


def ratios(all_figures: Iterable[Figures], own: str) -> dict[str, float]:
    """Return the ratio of the best speed of `own` to the best of each other family, where both spreads are small."""
    best = best_of_families(all_figures)
    steady = {family: figures for family, figures in best.items() if figures.spread <= STEADY}
    if own not in steady:
        return {}
    return {family: best[own].median / figures.median for family, figures in steady.items() if family != own}


def disagreements(
    losses: Mapping[str, Mapping[str, float]], reference: str, tolerance: Mapping[str, float]
) -> dict[str, str]:
    """Return the difference for each contender whose mean losses deviate from the reference's.

    tolerance: contender → how much a loss may differ, relative to the reference's.
    """
    wrong = {}
    for name, own in losses.items():
        for kind, expected in losses[reference].items():
            value = own.get(kind, float("nan"))
            if not abs(value - expected) <= tolerance[name] * abs(expected):
                wrong[name] = f"{kind} {value:.6g}, and {reference} has {expected:.6g}"
                break
    return wrong
