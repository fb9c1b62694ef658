"""What differs between two starts is told by its name, whatever else has the same value."""

from pathlib import Path

import pytest

from tapeline.runtime.errors import NotRepeatable
from tapeline.train.checks.repeatability import Made, check_same

FIRST = (("1.0", "a constant in train_step, line 7,"), ("2.0", "a constant in train_step, line 8,"))


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ((FIRST[0], ("3.0", FIRST[1][1])), "line 8, is different at each start"),
        ((FIRST[0], ("1.0", FIRST[1][1])), "line 8, is different at each start"),
        ((("2.0", FIRST[0][1]), ("1.0", FIRST[1][1])), "line 7, is different at each start"),
        (FIRST[:1], "a value is different at each start"),
    ],
)
def test_a_difference_is_named(second, said):
    with pytest.raises(NotRepeatable, match=said):
        check_same(Path("recipe.py"), Made(FIRST), Made(second))


def test_the_same_values_are_no_difference():
    check_same(Path("recipe.py"), Made(FIRST), Made(FIRST))
