"""The gate's tests against brute force, published values and what they are for."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from tapeline.config.registry import PairedSettings
from tapeline.registry.gate import paired

Z95 = 1.6448536269514722


def scores(gained, lost, count, right=None):
    """Return which examples champion and challenger have right."""
    champion, challenger = np.zeros(count, bool), np.zeros(count, bool)
    challenger[:gained] = True
    champion[gained : gained + lost] = True
    champion[gained + lost : right or count] = challenger[gained + lost : right or count] = True
    return champion, challenger


def score_statistic(gained, lost, count, difference):
    """Return Tango's statistic, its nuisance parameter found by maximising the likelihood numerically."""

    def loss(p):
        terms = ((gained, p + difference), (lost, p), (count - gained - lost, 1 - 2 * p - difference))
        return -sum(n * math.log(q) for n, q in terms if n)

    low, high = max(0, -difference) + 1e-12, (1 - difference) / 2 - 1e-12
    p = minimize_scalar(loss, bounds=(low, high), method="bounded", options={"xatol": 1e-14}).x
    return (gained - lost - count * difference) / math.sqrt(count * (2 * p + difference - difference**2))


@pytest.mark.parametrize(
    ("gained", "lost", "count"),
    [(0, 0, 899), (5, 3, 899), (3, 20, 899), (12, 9, 100), (0, 7, 899), (1, 0, 44), (44, 0, 44)],
)
def test_the_interval_ends_where_the_score_statistic_says(gained, lost, count):
    end = paired.score_bound(gained, lost, count, 0.95)
    assert score_statistic(gained, lost, count, end) == pytest.approx(Z95, abs=1e-4)
    assert end < (gained - lost) / count


@pytest.mark.parametrize(("count", "z"), [(1, 0.2533471031), (1, Z95), (899, Z95)])
def test_the_interval_without_any_difference(count, z):
    confidence = 0.6 if z < 1 else 0.95
    assert paired.score_bound(0, 0, count, confidence) == pytest.approx(-(z**2) / (count + z**2), abs=1e-8)


def test_mcnemar_is_the_exact_binomial_test():
    champion, challenger = scores(9, 1, 100)
    found = paired.mcnemar(champion, challenger, PairedSettings(asks="better"))
    assert found["p_better"] == pytest.approx(sum(math.comb(10, k) for k in (9, 10)) / 2**10)
    assert found["holds"] and (found["only_challenger_right"], found["only_champion_right"]) == (9, 1)
    assert not paired.mcnemar(*scores(7, 3, 100), PairedSettings(asks="better"))["holds"]


def test_better_is_shown_by_a_chance_of_exactly_what_is_left_of_the_confidence():
    settings = PairedSettings(asks="better", confidence=0.75)
    assert paired.mcnemar(*scores(2, 0, 100), settings)["p_better"] == 0.25
    assert paired.mcnemar(*scores(2, 0, 100), settings)["holds"]
    assert not paired.mcnemar(*scores(1, 0, 100), settings)["holds"]
    assert paired.mcnemar(*scores(0, 0, 100), settings)["p_better"] == 1.0


def test_the_hint_at_more_examples():
    assert paired.needed_examples(PairedSettings(margin=0.0)) == 0
    assert paired.needed_examples(PairedSettings(margin=0.05)) == math.ceil(Z95**2 * 0.95 / 0.05)
    assert paired.needed_examples(PairedSettings(margin=0.5, confidence=0.99)) == 6


def test_a_bootstrap_of_many_examples_draws_less_often(monkeypatch):
    monkeypatch.setattr(paired, "DRAWS", 50_000)
    errors = np.linspace(0, 1, 20)
    assert paired.bootstrap(errors, errors, PairedSettings(resamples=3000))["resamples"] == 2500
    assert paired.bootstrap(errors, errors, PairedSettings(resamples=500))["resamples"] == 500
    monkeypatch.setattr(paired, "DRAWS", 5_000)
    assert paired.bootstrap(errors, errors, PairedSettings(resamples=3000))["resamples"] == 1000


def test_a_routine_retrain_passes_and_a_real_loss_does_not():
    settings = PairedSettings(margin=0.02)
    assert paired.mcnemar(*scores(6, 8, 899), settings)["holds"]
    assert not paired.mcnemar(*scores(3, 30, 899), settings)["holds"]


def test_no_difference_at_all_needs_enough_examples():
    settings = PairedSettings(margin=0.02)
    needed = paired.needed_examples(settings)
    assert needed == 133
    assert not paired.mcnemar(*scores(0, 0, needed - 1), settings)["holds"]
    assert paired.mcnemar(*scores(0, 0, needed), settings)["holds"]


def test_how_often_a_loss_as_large_as_the_margin_passes():
    """At 95 % confidence about one in twenty; a model as good as the champion nearly always does."""
    random, settings = np.random.default_rng(0), PairedSettings(margin=0.02)

    def passed(worse):
        held = 0
        for _ in range(400):
            kind = random.choice(3, 900, p=[0.01, 0.01 + worse, 0.98 - worse])
            held += paired.mcnemar(kind != 0, kind != 1, settings)["holds"]
        return held / 400

    assert passed(0.02) < 0.09
    assert passed(0.0) > 0.9


def test_the_bootstrap_of_errors():
    random = np.random.default_rng(0)
    champion = random.exponential(size=500)
    settings = PairedSettings(margin=0.05)
    same = paired.bootstrap(champion, champion, settings)
    assert same["holds"] and same["difference"] == same["upper_bound"] == 0
    noise = random.normal(0, 0.05, 500)
    noise -= noise.mean()
    assert paired.bootstrap(champion, champion + noise, settings)["holds"]
    assert not paired.bootstrap(champion, champion * 1.2, settings)["holds"]
    assert paired.bootstrap(champion, champion * 0.9, PairedSettings(asks="better"))["holds"]
    assert not paired.bootstrap(champion, champion + noise, PairedSettings(asks="better"))["holds"]
    shifted = paired.bootstrap(champion, champion + noise, settings)
    exact = noise.mean() + Z95 * noise.std() / math.sqrt(500)
    assert shifted["upper_bound"] == pytest.approx(exact, rel=0.1)
    assert shifted == paired.bootstrap(champion, champion + noise, settings)


def test_the_bootstraps_numbers():
    random = np.random.default_rng(3)
    champion, challenger = random.exponential(size=30), random.exponential(size=30)
    found = paired.bootstrap(champion, challenger, PairedSettings(resamples=200, margin=0.1, confidence=0.9))
    drawn = np.random.default_rng(0).integers(0, 30, (200, 30))
    means = (challenger - champion)[drawn].mean(axis=1)
    assert found["upper_bound"] == pytest.approx(np.quantile(means, 0.9), rel=1e-12)
    assert (found["champion"], found["challenger"]) == (champion.mean(), challenger.mean())
    assert found["difference"] == pytest.approx(challenger.mean() - champion.mean())
    assert found["margin"] == pytest.approx(0.1 * champion.mean())
    assert (found["examples"], found["asks"], found["confidence"]) == (30, "not-worse", 0.9)


def test_no_difference_is_not_better():
    errors = np.linspace(0, 1, 20)
    assert not paired.bootstrap(errors, errors, PairedSettings(asks="better"))["holds"]


def test_a_champion_without_error_leaves_no_margin():
    assert paired.bootstrap(np.zeros(50), np.zeros(50), PairedSettings())["holds"]
    assert not paired.bootstrap(np.zeros(50), np.full(50, 1e-9), PairedSettings())["holds"]


@pytest.mark.parametrize(
    ("gained", "lost", "count"), [(0, 30, 30), (0, 17, 17), (0, 1, 1), (2, 298, 300), (30, 0, 30), (15, 15, 30)]
)
def test_the_interval_at_its_ends(gained, lost, count):
    """All lost is -1 and nothing below; otherwise the statistic at the bound is the quantile."""
    end = paired.score_bound(gained, lost, count, 0.95)
    assert -1 <= end < (gained - lost) / count or end == (gained - lost) / count == -1
    if lost < count:
        assert score_statistic(gained, lost, count, end) == pytest.approx(Z95, abs=1e-4)
