"""Tests of two models on the same examples. Pure functions of the examples' scores.

`mcnemar` is for right and wrong, `bootstrap` for errors. Both answer one of two questions at a stated confidence: is
the challenger *better*, or at least *not worse* by more than a margin? Finding no significant difference would prove
nothing: the fewer the examples, the easier it would be to pass.
"""

import math
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapeline.config.registry import PairedSettings

DRAWS = 200_000_000
"""Maximum number of examples drawn by one bootstrap, about two seconds; larger test sets get fewer resamples, but at
least 1 000."""


def mcnemar(champion: NDArray[np.bool_], challenger: NDArray[np.bool_], settings: PairedSettings) -> dict[str, Any]:
    """Compare which examples each model gets right. Shapes (examples,).

    better: McNemar's exact one-sided test on the examples that only one gets right. not-worse: the lower end of the
    score interval for the difference of paired proportions (Tango 1998, Statistics in Medicine 17:891-908) is above
    minus the margin.
    """
    from scipy.stats import binomtest

    gained, lost = int(np.sum(~champion & challenger)), int(np.sum(champion & ~challenger))
    count, discordant = len(champion), gained + lost
    p_value = binomtest(gained, discordant, alternative="greater").pvalue if discordant else 1.0
    lower = score_bound(gained, lost, count, settings.confidence)
    better, enough = float(p_value) <= 1 - settings.confidence, lower > -settings.margin
    return {
        "test": "McNemar, exact; score interval",
        "examples": count,
        "only_challenger_right": gained,
        "only_champion_right": lost,
        "difference": (gained - lost) / count,
        "lower_bound": lower,
        "p_better": float(p_value),
        "needed_examples": needed_examples(settings),
        **_asked(settings),
        "margin": settings.margin,
        "holds": better if settings.asks == "better" else enough,
    }


def score_bound(gained: int, lost: int, count: int, confidence: float) -> float:
    """Return the lower end of the one-sided score interval for (gained - lost) / count."""
    from scipy.optimize import brentq
    from scipy.stats import norm

    z = float(norm.ppf(confidence))

    def excess(delta: float) -> float:
        """Return the score statistic for a true difference `delta`, minus z: it falls as `delta` grows."""
        a = 2 * count
        b = (2 * count + lost - gained) * delta - gained - lost
        c = -lost * delta * (1 - delta)
        q = (math.sqrt(max(b * b - 4 * a * c, 0.0)) - b) / (2 * a)
        variance = count * (2 * q + delta * (1 - delta))
        above = gained - lost - count * delta
        return above / math.sqrt(max(variance, sys.float_info.min)) - z

    difference = (gained - lost) / count
    low, high = -1 + 1e-9, difference - 1e-12
    return float(brentq(excess, low, high, xtol=1e-9)) if excess(low) > 0 else -1.0


def needed_examples(settings: PairedSettings) -> int:
    """Return how many examples it takes to show that two models without any difference are "not worse"."""
    from scipy.stats import norm

    if not settings.margin:
        return 0
    return math.ceil(float(norm.ppf(settings.confidence)) ** 2 * (1 - settings.margin) / settings.margin)


def bootstrap(
    champion: NDArray[np.float64], challenger: NDArray[np.float64], settings: PairedSettings
) -> dict[str, Any]:
    """Compare each example's error. Shapes (examples,), at least 0.

    The differences are resampled with replacement (Efron 1979, percentile interval) from a fixed seed. not-worse: the
    upper end for the mean difference is at most the margin, a fraction of the champion's mean error. better: below 0.
    """
    differences = challenger - champion
    count = len(differences)
    resamples = min(settings.resamples, max(1000, DRAWS // max(count, 1)))
    random = np.random.default_rng(0)
    means = [float(differences[random.integers(0, count, count)].mean()) for _ in range(resamples)]
    upper, allowed = float(np.quantile(means, settings.confidence)), settings.margin * float(champion.mean())
    return {
        "test": "paired bootstrap of the mean absolute error",
        "examples": count,
        "resamples": resamples,
        "champion": float(champion.mean()),
        "challenger": float(challenger.mean()),
        "difference": float(differences.mean()),
        "upper_bound": upper,
        **_asked(settings),
        "margin": allowed,
        "holds": upper < 0 if settings.asks == "better" else upper <= allowed,
    }


def _asked(settings: PairedSettings) -> dict[str, Any]:
    return {"asks": settings.asks, "confidence": settings.confidence}
