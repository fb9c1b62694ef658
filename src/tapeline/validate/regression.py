"""A regressor's figures: what it foretold against what was."""

import csv
import io

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error

ROWS = 1000
"""Examples in the plot, the first ones."""


def figures(actual: NDArray[np.floating], predicted: NDArray[np.floating]) -> dict[str, float]:
    """Return the errors over all examples; several outputs of one example count alike. Shapes (examples, ...)."""
    flat, foretold = actual.reshape(len(actual), -1), predicted.reshape(len(actual), -1)
    measured = {
        "mean_absolute_error": float(mean_absolute_error(flat, foretold)),
        "root_mean_squared_error": float(root_mean_squared_error(flat, foretold)),
    }
    return measured | ({"r2": float(r2_score(flat, foretold))} if len(flat) > 1 else {})


def scatter_csv(actual: NDArray[np.floating], predicted: NDArray[np.floating]) -> str:
    """Return one line a value, `actual,predicted`."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["actual", "predicted"])
    pairs = zip(actual[:ROWS].ravel().tolist(), predicted[:ROWS].ravel().tolist(), strict=True)
    table.writerows([repr(one), repr(other)] for one, other in pairs)
    return text.getvalue()
