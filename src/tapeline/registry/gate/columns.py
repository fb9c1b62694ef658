"""Match the table columns of a feature by name: the champion may know others, or in another order.

given(values, ("age", "premium"), ("premium", "age"), "x")    # as the champion has them: the ages first
"""

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from tapeline.runtime.errors import InputError


def given(values: NDArray[Any], theirs: Sequence[str], ours: Sequence[str], name: str) -> NDArray[Any]:
    """Return the test data's values of a feature, shape (examples, columns), with the columns of the champion's.

    theirs, ours: the champion's columns and the challenger's, whose the test data is. Raises `InputError` for a column
    that the test data lacks.
    """
    if missing := [column for column in theirs if column not in ours]:
        raise InputError(f"its {name} has the column {missing[0]}, which the challenger's lacks")
    return _picked(values, ours, theirs, f"the test data's {name}")


def answered(values: NDArray[Any], theirs: Sequence[str], ours: Sequence[str], name: str) -> NDArray[Any]:
    """Return the champion's answers for a target, shape (examples, columns), with the columns of the challenger's.

    values: as many numbers for each example as the champion's target has columns. Raises `InputError` for a column that
    the champion does not predict.
    """
    if missing := [column for column in ours if column not in theirs]:
        raise InputError(f"its {name} lacks the column {missing[0]}, which the challenger's has")
    return _picked(values.reshape(len(values), -1), theirs, ours, f"its {name}")


def _picked(values: NDArray[Any], known: Sequence[str], wanted: Sequence[str], whose: str) -> NDArray[Any]:
    if values.shape[1:] != (len(known),):
        raise InputError(f"{whose} has the shape {values.shape}, not a number for each of {', '.join(known)}")
    found: NDArray[Any] = values[:, [known.index(column) for column in wanted]]
    return found
