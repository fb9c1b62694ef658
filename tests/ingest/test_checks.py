from typing import Any

import numpy as np
import pytest

from tapeline.dataset.columns import Feature
from tapeline.ingest.checks import check
from tapeline.ingest.source import Examples
from tapeline.runtime.errors import InputError

FEATURES = {"x": Feature((2,), "float32"), "y": Feature((), "int64", ("a", "b", "c")), "n": Feature((), "int8")}
GOOD = {"x": np.zeros((3, 2), np.float32), "y": np.array([0, 1, 2]), "n": np.array([-1, 0, 1], np.int8)}


def examples(**columns: Any) -> Examples:
    return Examples("test", ["k0", "k1", "k2"], {**GOOD, **columns})


def test_good_examples_pass() -> None:
    check(examples(), FEATURES)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"y": np.array([0, 3, 1])},
            "feature 'y' is 3 in test example k1: a label must be a class id from 0 to 2; ",
        ),
        ({"y": np.array([0, 1, -1])}, "feature 'y' is -1 in test example k2: a label must be a class id from 0 to 2"),
        ({"x": np.float32([[0, 1], [2, np.nan], [0, 0]])}, "feature 'x' is nan in test example k1: a feature must be"),
        (
            {"x": np.float32([[0, 1], [2, 0], [-np.inf, 0]])},
            "feature 'x' is -inf in test example k2: a feature must",
        ),
        ({"x": np.zeros((3, 1), np.float32)}, r"float32\(1,\) in test example k0 but float32\(2,\) in the dataset"),
        ({"n": np.zeros(3, np.int64)}, r"'n' has int64\(\) in test example k0 but int8\(\) in the dataset"),
    ],
)
def test_a_bad_value_is_named(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        check(examples(**columns), FEATURES)
