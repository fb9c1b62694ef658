"""Metrics of a regressor: its predictions compared with the actual values."""

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error

from tapeline.parsing import csv_text

ROWS = 1000
"""The number of examples in the plot, taken from the start."""


def figures(actual: NDArray[np.number], predicted: NDArray[np.number]) -> dict[str, float]:
    """Return the errors over all examples; all outputs of an example have equal weight. Shapes (examples, ...).

    All are NaN if a prediction is not finite.
    """
    # As float64, because the difference of two uint8 would wrap.
    flat, answers = (values.reshape(len(actual), -1).astype(np.float64) for values in (actual, predicted))
    if not np.isfinite(answers).all():
        names = ("mean_absolute_error", "root_mean_squared_error", "r2")
        return dict.fromkeys(names if len(flat) > 1 else names[:2], float("nan"))
    measured = {
        "mean_absolute_error": float(mean_absolute_error(flat, answers)),
        "root_mean_squared_error": float(root_mean_squared_error(flat, answers)),
    }
    return measured | ({"r2": float(r2_score(flat, answers))} if len(flat) > 1 else {})


def scatter_csv(actual: NDArray[np.number], predicted: NDArray[np.number]) -> str:
    """Return one line per value, `actual,predicted`."""
    pairs = zip(actual[:ROWS].ravel().tolist(), predicted[:ROWS].ravel().tolist(), strict=True)
    return csv_text.table(["actual", "predicted"], pairs)
