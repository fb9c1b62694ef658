"""Bounds and verdicts."""

import pytest

from tapeline.config.validate import Bound
from tapeline.runtime.errors import InputError
from tapeline.validate.verdict import judge


@pytest.mark.parametrize(
    ("value", "bound", "verdict", "reason"),
    [
        (0.97, {"min": 0.97}, "yes", ""),
        (0.9699, {"min": 0.97}, "no", "m is 0.9699, below its minimum 0.97"),
        (0.05, {"max": 0.05}, "yes", ""),
        (0.06, {"max": 0.05}, "no", "m is 0.06, above its maximum 0.05"),
        (0.5, {"min": 0.4, "max": 0.6}, "yes", ""),
        (0.7, {"min": 0.4, "max": 0.6}, "no", "m is 0.7, above its maximum 0.6"),
        (float("nan"), {"min": 0.1}, "no", "m is nan, below its minimum 0.1"),
        (float("nan"), {"max": 0.1}, "no", "m is nan, above its maximum 0.1"),
    ],
)
def test_a_bound(value, bound, verdict, reason):
    result = judge({"m": value, "other": 1.0}, {"m": Bound(**bound)})
    assert (result["verdict"], result["reason"]) == (verdict, reason)
    assert result["checks"][0]["metric"] == "m"


def test_every_missed_bound_is_named():
    result = judge({"a": 1.0, "b": 2.0}, {"b": Bound(max=1.0), "a": Bound(min=2.0)})
    assert result["reason"] == "a is 1, below its minimum 2; b is 2, above its maximum 1"


def test_a_bound_on_nothing():
    with pytest.raises(InputError, match="validate.thresholds names 'f2', which was not measured: choose from a, b"):
        judge({"a": 1.0, "b": 2.0}, {"f2": Bound(min=0.0)})


def test_no_bounds_is_yes():
    assert judge({"a": 1.0}, {})["verdict"] == "yes"
