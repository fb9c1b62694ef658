"""What a sweep has found, as a table, as a page with pictures and as a few lines."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flows.reports.svg import COLOURS, dot, drawing, line, scaled, text
from flows.request import Request
from flows.sweeps.request import Range, SweepRequest, Value
from flows.sweeps.study import Tried
from tapeline.project import RUN_BRANCHES

WIDTH, HEIGHT, MARGIN = 480, 220, 50


def winner(ranked: Sequence[Tried]) -> Tried:
    """Return the best that the gate lets pass; the best at all where none does."""
    return next((trial for trial in ranked if trial.gate.startswith("yes")), ranked[0])


def words(values: Mapping[str, Value]) -> str:
    """Return values as people read them."""
    return ", ".join(f"{key} {_short(value)}" for key, value in values.items())


def headline(request: SweepRequest, ranked: Sequence[Tried]) -> str:
    """Return the winner in a few words."""
    best = winner(ranked)
    return f"{request.metric} {best.value:.6g} of {len(ranked)} trials: {words(best.values)}"


def command(request: SweepRequest, ranked: Sequence[Tried]) -> str:
    """Return the command that runs the winner."""
    overrides = {**request.overrides, **winner(ranked).values}
    return Request(pipeline=request.pipeline, isolated=True, overrides=overrides).command()


def table(request: SweepRequest, ranked: Sequence[Tried]) -> list[dict[str, Any]]:
    """Return a row for each trial, the best first."""
    return [
        {"rank": rank, request.metric: trial.value, **trial.values, "gate": trial.gate, "branch": trial.branch}
        for rank, trial in enumerate(ranked, start=1)
    ]


def summary(request: SweepRequest, ranked: Sequence[Tried]) -> str:
    """Return the ranked table and the winner's command for a terminal."""
    rows = [[str(row["rank"]), *map(_short, list(row.values())[1:])] for row in table(request, ranked)]
    head = ["rank", request.metric, *request.over, "gate", "branch"]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = ["  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)) for row in [head, *rows]]
    return "\n".join([*map(str.rstrip, lines), "", command(request, ranked)])


def page(request: SweepRequest, ranked: Sequence[Tried]) -> str:
    """Return the sweep as a page for Prefect's user interfaces."""
    return "\n".join(_page(request, ranked)) + "\n"


def _page(request: SweepRequest, ranked: Sequence[Tried]) -> Iterator[str]:
    best, keys = winner(ranked), list(request.over)
    yield f"# Sweep {request.name}: {request.pipeline}"
    yield from ("", f"**{headline(request, ranked)}**")
    if not best.gate.startswith("yes"):
        yield from ("", "No trial passed the gate.")
    # Else it is a commit whose record is the winner: `main at 8607dbd`.
    mergeable = RUN_BRANCHES in best.branch and " " not in best.branch
    yield from ("", f"The winner again{', or its branch as it is' if mergeable else ''}:", "")
    yield from ("```console", f"$ {command(request, ranked)}")
    if mergeable:
        yield f"$ git merge {best.branch} && dvc checkout"
    yield "```"
    yield from ("", f"![{request.metric} over trials]({_over_trials(request, ranked)})")
    for key in keys:
        if isinstance(request.over[key], Range):
            yield from ("", f"![{request.metric} over {key}]({_over_values(request, ranked, key)})")
    yield from ("", f"| | {request.metric} | {' | '.join(keys)} | gate | branch |")
    yield f"|---:|---:|{'---:|' * len(keys)}---|---|"
    for row in table(request, ranked):
        yield "| " + " | ".join(_short(cell).replace("|", "\\|") for cell in row.values()) + " |"


def _over_trials(request: SweepRequest, ranked: Sequence[Tried]) -> str:
    """Return a picture of each trial's value in the order of the trials, and of the best so far."""
    tried = sorted(ranked, key=lambda trial: trial.number)
    better = max if request.goal == "max" else min
    bests = [better(trial.value for trial in tried[: n + 1]) for n in range(len(tried))]
    places = _places([float(trial.number) for trial in tried], [trial.value for trial in tried])
    steps = _places([float(trial.number) for trial in tried], bests, among=[trial.value for trial in tried])
    dots = [dot(x, y, COLOURS[0]) for x, y in places]
    ends = f"trial {tried[0].number}", f"trial {tried[-1].number}"
    return _framed(request, ranked, [line(steps, COLOURS[2]), *dots], ends)


def _over_values(request: SweepRequest, ranked: Sequence[Tried], key: str) -> str:
    """Return a picture of each trial's value over one searched setting; the winner in another colour."""
    dimension = request.over[key]
    assert isinstance(dimension, Range), "choices have no axis"
    scale = math.log if dimension.log else float
    values = [float(trial.values[key]) for trial in ranked]
    ends = [scale(float(dimension.low)), scale(float(dimension.high))]
    places = _places([scale(value) for value in values], [trial.value for trial in ranked], across=ends)
    best = winner(ranked)
    dots = [dot(*at, COLOURS[trial is best]) for at, trial in zip(places, ranked, strict=True)]
    kind = " (log)" if dimension.log else ""
    return _framed(request, ranked, dots, (f"{key} {dimension.low:g}{kind}", f"{dimension.high:g}"))


def _places(
    xs: Sequence[float], ys: Sequence[float], *, across: Sequence[float] = (), among: Sequence[float] = ()
) -> list[tuple[float, float]]:
    across, among = across or xs, among or ys
    return [
        (
            scaled(x, min(across), max(across), MARGIN, WIDTH - MARGIN),
            scaled(y, min(among), max(among), HEIGHT - MARGIN, MARGIN),
        )
        for x, y in zip(xs, ys, strict=True)
    ]


def _framed(request: SweepRequest, ranked: Sequence[Tried], parts: Sequence[str], ends: tuple[str, str]) -> str:
    values = [trial.value for trial in ranked]
    frame = [
        text(4, 20, request.metric),
        text(4, MARGIN, f"{max(values):.4g}"),
        text(4, HEIGHT - MARGIN, f"{min(values):.4g}"),
        text(MARGIN, HEIGHT - 14, ends[0]),
        text(WIDTH - 2 * MARGIN, HEIGHT - 14, ends[1]),
    ]
    return drawing(WIDTH, HEIGHT, [*frame, *parts])


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
