"""Predictions that are not finite are a clear "no", whatever the thresholds."""

import doctest

import numpy as np

from tapeline.validate import classification, finite, regression
from tapeline.validate.verdict import judge

NAN = float("nan")


def test_the_example_in_the_docstring_is_true():
    assert doctest.testmod(finite) == (0, 1)


def test_how_many_examples_and_which_output():
    logits = np.zeros((4, 3), np.float32)
    logits[1, :2], logits[3, 0] = np.nan, -np.inf
    predicted = {"class": np.arange(4), "logits": logits, "y": np.ones(4), "text": np.array([b"a"] * 4)}
    assert list(finite.faults(predicted)) == ["logits is not finite for 2 of 4 examples"]
    assert list(finite.faults({"y": np.ones(0)})) == []


def test_a_fault_is_a_no_without_any_threshold():
    found = judge({"a": 1.0}, {}, ["y is not finite for 1 of 2 examples"])
    assert (found["verdict"], found["reason"]) == ("no", "y is not finite for 1 of 2 examples")


def test_no_figure_is_made_of_what_is_not_finite():
    error, diagram = classification.calibration(np.array([0, 1]), np.array([[NAN, 1.0], [0.0, 1.0]]), 10)
    assert np.isnan(error) and diagram == []
    assert all(np.isnan(value) for value in regression.figures(np.ones(2), np.array([1.0, np.inf])).values())
