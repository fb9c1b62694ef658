"""Two models of other table columns: a column is the one of its name, wherever either has it."""

import numpy as np
import pytest

from tapeline.registry.gate import columns
from tapeline.registry.gate.measures import Target
from tapeline.runtime.errors import InputError

VALUES = np.array([[1.0, 10.0], [2.0, 20.0]])


def test_a_champion_gets_the_columns_that_it_knows_in_its_order():
    np.testing.assert_array_equal(columns.given(VALUES, ["b", "a"], ["a", "b"], "x"), VALUES[:, ::-1])
    np.testing.assert_array_equal(columns.given(VALUES, ["b"], ["a", "b"], "x"), VALUES[:, 1:])
    with pytest.raises(InputError, match="^its x has the column c, which the challenger's lacks$"):
        columns.given(VALUES, ["a", "c"], ["a", "b"], "x")


@pytest.mark.parametrize("shape", [(2, 2), (2, 2, 1)])
def test_answers_are_measured_against_their_own_columns(shape):
    found = columns.answered((VALUES + 1).reshape(shape), ["cost", "count"], ["count", "cost"], "y")
    assert Target("y", VALUES[:, ::-1]).metrics({"y": found})["mean_absolute_error"] == 1.0


def test_of_several_answers_the_one_that_is_still_predicted_is_measured():
    found = columns.answered(VALUES, ["cost", "count"], ["count"], "y")
    assert Target("y", VALUES[:, 1]).metrics({"y": found})["mean_absolute_error"] == 0.0


def test_another_column_of_the_same_feature_is_not_compared():
    with pytest.raises(InputError, match="^its y lacks the column euro, which the challenger's has$"):
        columns.answered(VALUES[:, 0], ["dollar"], ["euro"], "y")


def test_values_of_other_columns_than_are_said_are_refused():
    with pytest.raises(InputError, match=r"^its y has the shape \(2, 1\), not a number for each of a, b$"):
        columns.answered(VALUES[:, :1], ["a", "b"], ["b", "a"], "y")
    with pytest.raises(InputError, match=r"^the test data's x has the shape \(2, 1\), not a number for each of b, a$"):
        columns.given(VALUES[:, :1], ["a", "b"], ["b", "a"], "x")
