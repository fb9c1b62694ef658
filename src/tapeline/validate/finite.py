"""Find non-finite predictions, which make every metric of a model meaningless."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray


def faults(predicted: Mapping[str, NDArray[Any]]) -> Iterator[str]:
    """Yield a phrase for each output with a NaN or an infinity: the output, and for how many examples.

    predicted: output → values of shape (examples, ...).

    >>> list(faults({"y": np.array([[1.0, np.nan], [2.0, 3.0]])}))
    ['y is not finite for 1 of 2 examples']
    """
    for name, values in predicted.items():
        if values.dtype.kind in "fc" and not (finite := np.isfinite(values)).all():
            wrong = int((~finite.reshape(len(values), -1).all(axis=1)).sum())
            yield f"{name} is not finite for {wrong} of {len(values)} examples"
