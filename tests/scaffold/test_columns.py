"""What all rows say about a column, of which only some numbers are remembered."""

import numpy as np
import pyarrow as pa
import pytest

from tapeline.ingest.cells import Cells
from tapeline.scaffold.columns import Column


def column(name, numbers, *, remember=True):
    found = Column(name)
    for first in range(0, len(numbers), 10):
        found.add(Cells(pa.array(numbers[first : first + 10]), first, f"t: column {name!r}"), remember=remember)
    return found


def test_the_numbers_of_a_column_that_repeats_are_forgotten():
    assert column("id", range(60)).remembered == 60
    assert column("id", [*range(50), *[1] * 10]).remembered == 0
    assert column("price", [*range(50), *[0.5] * 10]).remembered == 0


@pytest.mark.parametrize(
    ("numbers", "useless"),
    [
        (range(60), "it numbers the rows"),
        (np.arange(60) * 7 % 60 + 1, "it numbers the rows"),
        ([*range(30), *range(30)], None),
        ([*range(30), *range(31, 61)], None),
        ([5] * 60, "it is constant"),
    ],
    ids=["numbered", "shuffled", "restarted", "with a gap", "constant"],
)
@pytest.mark.parametrize("remember", [True, False])
def test_why_a_column_is_useless_whether_its_numbers_are_remembered_or_not(numbers, useless, remember):
    found = column("n", numbers, remember=remember)
    found.end()
    assert found.useless == useless
    assert found.remembered == 0
