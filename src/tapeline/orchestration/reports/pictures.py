"""A report's pictures, drawn from the files that the stages write."""

import csv
import io
import math
import operator
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tapeline.orchestration.reports.drawing import COLOURS, INK, drawn, grid, label
from tapeline.runtime import files

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Picture = tuple[str, str]
"""The alternative text, and the URL."""
Points = list[tuple[float, float]]

WIDTH, HEIGHT, LOW = 320, 190, 140
"""Pixels of one plot, two of which are side by side; height `LOW` where every line has at most `FEW` points."""
FEW = 10
MOST_POINTS = 240
MOST_CLASSES = 20
CELL = 26
"""Pixels."""
NUMBER = re.compile(r"-?(\d+\.?\d*|\.\d+)")
"""A class whose name is a number stands in its order."""
_GREY, _RIGHT, _WRONG = (122, 126, 134), (24, 111, 208), (207, 74, 18)
"""White text on any mixture of the first with one of the others has a contrast of 4:1 or more."""
Colour = tuple[float, float, float, float]
_NOTHING: Colour = (0.0, 0.0, 0.0, 0.0)


def learning_curves(history: Path) -> Iterator[Picture]:
    """Yield a picture of each metric of a `history.csv` over the steps: training and, where present, validation.

    Yields nothing if the file does not exist or no metric has two points.
    """
    rows = _rows(history)
    curves = {name: lines for name in _metrics(rows) if (lines := _lines(rows, name))}
    if not curves:
        return
    yield f"{', '.join(curves)} over steps", _curves(curves)


def confusion_matrix(predictions: Path) -> Iterator[Picture]:
    """Yield the matrix of a `confusion.csv` with the columns actual and predicted.

    With more than `MOST_CLASSES` classes, only those with the most errors are shown, and the title says so.
    """
    rows = _rows(predictions)
    counts = Counter((row.get("actual", ""), row.get("predicted", "")) for row in rows)
    classes = sorted({name for pair in counts for name in pair}, key=_by_number)
    if len(classes) < 2:
        return
    mistakes: Counter[str] = Counter()
    for (actual, predicted), count in counts.items():
        if actual != predicted:
            mistakes.update({actual: count, predicted: count})
    worst = sorted(classes, key=lambda name: -mistakes[name])[:MOST_CLASSES]
    shown = [name for name in classes if name in worst]
    words = "confusion matrix"
    if len(shown) < len(classes):
        words += f": the {len(shown)} of {len(classes)} classes with the most errors"
    yield words, _matrix(words, shown, counts)


def scatter(predictions: Path) -> Iterator[Picture]:
    """Yield a plot of predicted over actual values, from a `predicted.csv` with the columns actual and predicted."""
    pairs = [(_value(row["actual"]), _value(row["predicted"])) for row in _rows(predictions)]
    pairs = [pair for pair in pairs if all(map(math.isfinite, pair))]
    if not pairs:
        return
    yield "predicted over actual", _scatter(pairs)


def _value(text: str) -> float:
    """Return a value as a number: a target may be yes or no."""
    return float({"True": "1", "False": "0"}.get(text, text))


def _rows(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with io.TextIOWrapper(files.opened(path), encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _metrics(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the names of the metrics, measured in training, in validation or in both."""
    names = [name.removeprefix("val_") for name in (rows[0] if rows else ()) if name not in ("step", "epoch")]
    return list(dict.fromkeys(names))


def _lines(rows: Sequence[Mapping[str, str]], name: str) -> dict[str, Points]:
    """Return the lines of a metric that have at least two points."""
    lines = {}
    for split, key in (("train", name), ("val", f"val_{name}")):
        points = [(float(row["step"]), float(row[key])) for row in rows if row.get(key)]
        points = [point for point in points if math.isfinite(point[1])]
        if len(points) > 1:
            lines[split] = _thinned(points)
    return lines


def _thinned(points: Points) -> Points:
    """Return at most `MOST_POINTS` points: the lowest and the highest of each chunk, so that no peak is lost."""
    if len(points) <= MOST_POINTS:
        return points
    size = math.ceil(2 * len(points) / MOST_POINTS)
    stretches = (points[start : start + size] for start in range(0, len(points), size))
    height = operator.itemgetter(1)
    return [point for part in stretches for point in sorted({min(part, key=height), max(part, key=height)})]


@drawn
def _curves(curves: Mapping[str, Mapping[str, Points]]) -> "Figure":
    columns = min(2, len(curves))
    count = math.ceil(len(curves) / columns)
    few = max(len(points) for lines in curves.values() for points in lines.values()) <= FEW
    figure, places = grid(columns * WIDTH, count * (LOW if few else HEIGHT) + 24, rows=count, columns=columns)
    for axes, (name, lines) in zip(places, curves.items(), strict=False):
        _curve(axes, name, lines, marked=few)
    for axes in places[len(curves) :]:
        axes.remove()
    found: dict[str, Any] = {}
    for axes in places[: len(curves)]:
        found |= {str(name): line for line, name in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend([*found.values()], [*found], loc="outside upper left", ncols=len(found))
    return figure


def _curve(axes: "Axes", name: str, lines: Mapping[str, Points], *, marked: bool) -> None:
    for split, points in lines.items():
        colour = COLOURS[split == "val"]
        axes.plot(*zip(*points, strict=True), "o-" if marked else "-", color=colour, markersize=4, label=split)
    axes.set_title(label(name, most=36))
    axes.set_xlabel("step")
    axes.locator_params(nbins=4)
    axes.ticklabel_format(useOffset=False, axis="y")
    axes.grid(True)


@drawn
def _scatter(pairs: Points) -> "Figure":
    figure, [axes] = grid(WIDTH, WIDTH)
    ends = min(map(min, pairs)), max(map(max, pairs))
    axes.plot(ends, ends, color=INK, linewidth=0.8)
    every = math.ceil(len(pairs) / MOST_POINTS)
    axes.plot(*zip(*pairs[::every], strict=True), "o", color=COLOURS[0], alpha=0.6, markersize=3)
    axes.set(xlabel="actual", ylabel="predicted", title="predicted over actual")
    axes.locator_params(nbins=5)
    axes.grid(True)
    return figure


@drawn
def _matrix(title: str, classes: Sequence[str], counts: Mapping[tuple[str, str], int]) -> "Figure":
    names = [label(name, most=18) for name in classes]
    border = 60 + 6 * max(map(len, names))
    side = len(classes) * CELL
    figure, [axes] = grid(max(side, 7 * len(title)) + border, side + min(border, 90 + border // 2))
    totals = [sum(count for pair, count in counts.items() if pair[0] == actual) for actual in classes]
    colours = [[_NOTHING] * len(classes) for _ in classes]
    for row, actual in enumerate(classes):
        for column, predicted in enumerate(classes):
            if count := counts.get((actual, predicted), 0):
                colours[row][column] = _colour(count / totals[row], right=row == column)
                size = 8.5 if count < 1000 else 6
                axes.text(column, row, str(count), color="white", size=size, ha="center", va="center_baseline")
    axes.imshow(colours, interpolation="none")
    places = range(len(classes))
    axes.set_xticks(places, names, rotation=90 if max(map(len, names)) > 3 else 0)
    axes.set_yticks(places, names)
    axes.set_xticks([place - 0.5 for place in places], minor=True)
    axes.set_yticks([place - 0.5 for place in places], minor=True)
    axes.tick_params(which="both", length=0)
    axes.grid(True, which="minor")
    axes.set(xlim=(-0.5, len(classes) - 0.5), ylim=(len(classes) - 0.5, -0.5), anchor="W")
    axes.set(xlabel="predicted", ylabel="actual", title=title)
    return figure


def _colour(share: float, *, right: bool) -> Colour:
    """Return a colour that is stronger for a larger share of the row; a rare error is still visible."""
    full, strength = _RIGHT if right else _WRONG, 0.3 + 0.7 * math.sqrt(share)
    red, green, blue = ((grey + strength * (other - grey)) / 255 for grey, other in zip(_GREY, full, strict=True))
    return red, green, blue, 1.0


def _by_number(name: str) -> tuple[bool, float, str]:
    is_number = NUMBER.fullmatch(name) is not None
    return (not is_number, float(name) if is_number else 0.0, name)
