"""From losses to a rate, on curves whose answer is known."""

import numpy as np
import pytest

from tapeline.tuning.suggestion import Watch, rounded, smooth, suggest


def ramp(low=1e-6, high=10.0, steps=200):
    return low * (high / low) ** (np.arange(steps) / (steps - 1))


def descent(rates, curvature, start=2.0):
    """Gradient descent on curvature / 2 w² with these rates: the loss before each step."""
    with np.errstate(over="ignore"):
        return start * np.cumprod([1.0, *(1 - rates[:-1] * curvature)]) ** 2


def until_divergence(rates, losses):
    watch = Watch()
    for number, loss in enumerate(losses):
        if watch.diverged(float(loss)):
            return rates[:number], losses[:number], rates[number]
    return rates, losses, None


@pytest.mark.parametrize("curvature", [0.5, 3.0, 40.0, 2000.0])
def test_a_quadratic(curvature):
    """The best rate is 1 / curvature, beyond 2 / curvature it diverges."""
    rates, losses, diverged = until_divergence(ramp(), descent(ramp(), curvature))
    found = suggest(rates, losses)
    assert 0.1 / curvature < found.rate <= 1 / curvature
    assert found.low <= found.rate <= found.high <= 2 / curvature
    assert diverged is None or 2 / curvature < diverged < 20 / curvature
    assert (diverged is None) == (curvature < 1)


def test_noise_moves_the_suggestion_little():
    random = np.random.default_rng(0)
    found = []
    for _ in range(30):
        losses = (descent(ramp(), 40.0) + 0.3) * random.lognormal(sigma=0.3, size=200)
        rates, losses, _ = until_divergence(ramp(), losses)
        found.append(suggest(rates, losses).rate)
    assert max(found) < 1 / 40
    assert max(found) / min(found) < 10


def test_nothing_falls_so_nothing_is_suggested():
    random = np.random.default_rng(0)
    for losses in (np.ones(200), 1 + random.normal(scale=0.3, size=200), np.linspace(1, 2, 200), np.zeros(200)):
        assert suggest(ramp(), losses) is None
    assert suggest(ramp()[:3], [3.0, 2.0, 1.0]) is None


def test_a_loss_that_is_negative():
    """The same curve 100 lower has no ratios: its own slope is greatest earlier, at about 1 / 25 of the best rate."""
    losses = descent(ramp(), 40.0, start=50.0)
    rates, shifted, diverged = until_divergence(ramp(), losses - 100)
    assert diverged is not None
    assert 1 / 40 / 50 < suggest(rates, shifted).rate < 1 / 40


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_has_diverged(bad):
    watch = Watch()
    assert not watch.diverged(1.0)
    assert watch.diverged(bad)


def test_one_bad_step_and_noise_around_zero_are_no_divergence():
    watch = Watch()
    assert not any(watch.diverged(loss) for loss in (1.0, 1.0, 8.0, 1.0, 1.0))
    watch = Watch()
    assert not any(watch.diverged(loss) for loss in (5.0, *np.geomspace(5, 1e-12, 30), 1e-6, 1e-4, 1e-3))
    watch = Watch()
    assert [watch.diverged(loss) for loss in (1.0, 1.0, 2.0, 8.0, 20.0)][-1]


def test_smoothing_keeps_a_constant_and_the_place_of_a_dip():
    assert smooth([3.0] * 50) == pytest.approx(np.full(50, 3.0))
    dip = 2 + np.abs(np.linspace(-1, 1, 101))
    assert int(smooth(dip).argmin()) == 50


def test_two_significant_digits():
    assert [rounded(rate) for rate in (0.012345, 1.06e-5, 3.0)] == [0.012, 1.1e-5, 3.0]
