"""A regressor's figures against what one counts by hand."""

import numpy as np
import pytest

from tapeline.validate import regression

ACTUAL = np.array([[1.0], [2.0], [4.0]], np.float32)
PREDICTED = np.array([[1.0], [3.0], [2.0]], np.float32)


def test_figures():
    measured = regression.figures(ACTUAL, PREDICTED)
    assert measured["mean_absolute_error"] == pytest.approx(1.0)
    assert measured["root_mean_squared_error"] == pytest.approx(np.sqrt(5 / 3))
    assert measured["r2"] == pytest.approx(1 - 5 / (14 / 3))


def test_one_example_has_no_r2():
    assert set(regression.figures(ACTUAL[:1], PREDICTED[:1])) == {"mean_absolute_error", "root_mean_squared_error"}


def test_the_plot():
    assert regression.scatter_csv(ACTUAL, PREDICTED).splitlines() == [
        "actual,predicted",
        "1.0,1.0",
        "2.0,3.0",
        "4.0,2.0",
    ]
