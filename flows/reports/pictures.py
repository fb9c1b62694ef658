"""Pictures of a report, drawn from the files that the stages leave; nothing is imported for it that takes time."""

import csv
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from flows.reports.svg import COLOURS, INK, box, drawing, line, scaled, text

WIDTH, HEIGHT, MARGIN = 640, 240, 44
MOST_POINTS = 400
MOST_CLASSES = 20


def learning_curve(history: Path) -> Iterator[tuple[str, str]]:
    """Yield (title, address) for each metric of a `history.csv`: training and, where there is any, validation.

    Nothing for a file that is not there or has fewer than two rows.
    """
    rows = _rows(history)
    if len(rows) < 2:
        return
    for name in (key for key in rows[0] if key not in ("step", "epoch") and not key.startswith("val_")):
        lines = {
            split: [(float(row["step"]), float(row[key])) for row in rows if row.get(key)]
            for split, key in (("train", name), ("val", f"val_{name}"))
        }
        lines = {split: _thinned(points) for split, points in lines.items() if len(points) > 1}
        if lines:
            yield f"{name} over steps", _chart(name, lines)


def confusion_matrix(predictions: Path) -> Iterator[tuple[str, str]]:
    """Yield (title, address) of the matrix of a `confusion.csv` with the columns actual and predicted."""
    rows = _rows(predictions)
    counts = Counter((row.get("actual", ""), row.get("predicted", "")) for row in rows)
    classes = sorted({label for pair in counts for label in pair}, key=_by_number)
    if counts and 2 <= len(classes) <= MOST_CLASSES:
        yield "confusion matrix: rows are true classes", _matrix(classes, counts)


def _rows(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return at most `MOST_POINTS` of the points, the last one among them."""
    every = -(-len(points) // MOST_POINTS)
    return [*points[:-1:every], points[-1]]


def _chart(name: str, lines: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    steps, values = zip(*(point for points in lines.values() for point in points), strict=True)
    low, high, first, last = min(values), max(values), min(steps), max(steps)
    parts = [
        text(4, MARGIN, f"{high:.3g}"),
        text(4, HEIGHT - MARGIN, f"{low:.3g}"),
        text(MARGIN, HEIGHT - 14, f"step {first:g}"),
        text(WIDTH - 2 * MARGIN, HEIGHT - 14, f"step {last:g}"),
    ]
    for index, (split, points) in enumerate(lines.items()):
        places = [
            (scaled(step, first, last, MARGIN, WIDTH - MARGIN), scaled(value, low, high, HEIGHT - MARGIN, MARGIN))
            for step, value in points
        ]
        colour = COLOURS[index % len(COLOURS)]
        parts += [line(places, colour), text(MARGIN + 120 * index, 22, f"{split} {name}", colour)]
    return drawing(WIDTH, HEIGHT, parts)


def _matrix(classes: Sequence[str], counts: Mapping[tuple[str, str], int]) -> str:
    cell, border = 34, 60
    most = max(counts.values())
    parts = []
    for index, label in enumerate(classes):
        at = border + index * cell + 4
        parts += [text(4, at + 18, label), text(at, border - 10, label)]
    for row, actual in enumerate(classes):
        for column, predicted in enumerate(classes):
            count = counts.get((actual, predicted), 0)
            x, y, share = border + column * cell, border + row * cell, count / most
            parts.append(box(x, y, cell, COLOURS[0], share))
            if count:
                parts.append(text(x + 6, y + 21, str(count), "white" if share > 0.5 else INK))
    side = border + len(classes) * cell + 10
    return drawing(side, side, parts)


def _by_number(label: str) -> tuple[bool, float, str]:
    number = label.replace(".", "", 1).lstrip("-").isdecimal()
    return (not number, float(label) if number else 0.0, label)
