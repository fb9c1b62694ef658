"""The picture of a range test: loss against learning rate, with the suggestion marked."""

import io
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tapeline.runtime import files
from tapeline.tuning.suggestion import Floats, Suggestion, rounded, smooth

_RAW, _SMOOTH, _CHOSEN, _BAD = "#9aa7b5", "#1f5f99", "#d1495b", "#6c757d"
LOGARITHMIC = 50
"""The loss axis is logarithmic if the highest loss exceeds the lowest by more than this factor."""


def write(
    path: Path,
    *,
    title: str,
    metric: str,
    rates: Sequence[float],
    losses: Sequence[float],
    diverged: float | None,
    suggestion: Suggestion | None,
) -> None:
    """Write a PNG of 1200 × 750 pixels atomically."""
    figure = Figure(figsize=(8, 5), dpi=150, layout="constrained")
    axes = figure.subplots()
    mean = smooth(losses)
    axes.set_xscale("log")
    axes.plot(rates, losses, color=_RAW, linewidth=0.8, label="each step")
    axes.plot(rates, mean, color=_SMOOTH, linewidth=2.2, label="smoothed")
    if suggestion is not None:
        axes.axvspan(suggestion.low, suggestion.high, color=_CHOSEN, alpha=0.10, label="bounds of a cyclic rate")
        axes.axvline(suggestion.rate, color=_CHOSEN, linewidth=1.4, linestyle="--")
        height = float(np.interp(np.log(suggestion.rate), np.log(rates), mean))
        axes.plot([suggestion.rate], [height], "o", color=_CHOSEN, label=f"suggested {rounded(suggestion.rate):g}")
    if diverged is not None:
        axes.axvline(diverged, color=_BAD, linewidth=1.2, linestyle=":", label=f"diverged {rounded(diverged):g}")
    _set_height(axes, losses, mean)
    axes.set_xlabel("learning rate")
    axes.set_ylabel(metric)
    axes.set_title(title)
    axes.grid(True, which="major", alpha=0.25)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.legend(frameon=False, loc="best")
    image = io.BytesIO()
    figure.savefig(image, format="png")
    files.write_bytes(path, image.getvalue())


def _set_height(axes: Axes, losses: Sequence[float], mean: Floats) -> None:
    """Crop the end of a divergence, which would flatten the rest of the curve."""
    fall = mean[: int(mean.argmin()) + 1]
    top, bottom = float(np.max(losses[: len(fall)])), float(fall.min())
    if bottom > 0 and top > LOGARITHMIC * bottom:
        axes.set_yscale("log")
        axes.set_ylim(bottom / 2, top * 2)
    elif top > bottom:
        margin = 0.08 * (top - bottom)
        axes.set_ylim(min(bottom, *losses[: len(fall)]) - margin, top + 3 * margin)
