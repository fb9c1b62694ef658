"""Gradient transforms against their formulas; each composes with the others in the listed order."""

import numpy as np
import pytest

from tapeline.config.hyperparameters import Transforms

GRADIENTS = ([3.0, -4.0], [[12.0]])
VARIABLES = ([1.0, 2.0], [[10.0]])


@pytest.fixture
def apply(tf):
    from tapeline.recipe.gradients import transform

    def call(seed=(1, 2), **transforms):
        gradients = [tf.constant(g) for g in GRADIENTS]
        variables = [tf.Variable(v) for v in VARIABLES]
        return [r.numpy() for r in transform(gradients, variables, Transforms(**transforms), tf.constant(seed))]

    return call


def test_nothing_asked_nothing_changed(apply):
    assert [g.tolist() for g in apply()] == [list(GRADIENTS[0]), GRADIENTS[1]]


@pytest.mark.parametrize(
    ("transforms", "expected"),
    [
        ({"clip_value": 3.5}, ([3.0, -3.5], [[3.5]])),
        ({"clip_norm": 1.0}, ([0.6, -0.8], [[1.0]])),
        ({"clip_norm": 100.0}, GRADIENTS),
        ({"clip_global_norm": 1.3}, ([0.3, -0.4], [[1.2]])),
        ({"weight_decay": 0.1}, ([3.1, -3.8], [[13.0]])),
        ({"clip_value": 3.0, "clip_norm": 1.0}, ([0.70710678, -0.70710678], [[1.0]])),
        ({"clip_global_norm": 1.3, "weight_decay": 0.1}, ([0.4, -0.2], [[2.2]])),
    ],
)
def test_the_formulas(apply, transforms, expected):
    for result, wanted in zip(apply(**transforms), expected, strict=True):
        assert np.allclose(result, wanted, rtol=1e-5)


def test_noise_is_a_function_of_the_seed(apply):
    one, same, other = apply(noise=0.1), apply(noise=0.1), apply((1, 3), noise=0.1)
    assert all(np.array_equal(a, b) for a, b in zip(one, same, strict=True))
    assert not np.array_equal(one[0], other[0])
    assert not np.allclose(one[0], GRADIENTS[0], atol=1e-3)


@pytest.mark.parametrize("wrong", [{"clip_norm": 0.0}, {"noise": -1.0}, {"clip_value": float("nan")}, {"clips": 1.0}])
def test_bounds(wrong):
    with pytest.raises(ValueError, match="validation error"):
        Transforms(**wrong)
