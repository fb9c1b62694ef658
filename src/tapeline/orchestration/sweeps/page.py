"""A sweep's results, as a table, as a page with pictures and as a summary."""

import itertools
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tapeline.config.project import RUN_BRANCHES
from tapeline.orchestration.reports.drawing import COLOURS, drawn, grid, label, logarithmic
from tapeline.orchestration.reports.page import escaped, pictures, wrapped
from tapeline.orchestration.reports.page import table as page_table
from tapeline.orchestration.request import Request
from tapeline.orchestration.sweeps.request import Range, SweepRequest, Value
from tapeline.orchestration.sweeps.study import Tried
from tapeline.runtime.text_table import aligned

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH, HEIGHT = 480, 220
"""Pixels of a picture."""


def winner(ranked: Sequence[Tried]) -> Tried:
    """Return the best trial that passes the gate; the best overall if none does."""
    return next((trial for trial in ranked if trial.gate.startswith("yes")), ranked[0])


def words(values: Mapping[str, Value]) -> str:
    """Return values as a short text."""
    return ", ".join(f"{key} {_short(value)}" for key, value in values.items())


def headline(request: SweepRequest, ranked: Sequence[Tried]) -> str:
    """Return the winner in a few words."""
    best = winner(ranked)
    return f"{request.metric} {best.value:.6g} of {len(ranked)} trials: {words(best.values)}"


def command(request: SweepRequest, ranked: Sequence[Tried]) -> str:
    """Return the command that runs the winner, with the request's `ref`."""
    overrides = {**request.overrides, **winner(ranked).values}
    return Request(pipeline=request.pipeline, isolated=True, ref=request.ref, overrides=overrides).command()


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
    return "\n".join([*aligned([head, *rows]), "", command(request, ranked)])


def page(request: SweepRequest, ranked: Sequence[Tried]) -> str:
    """Return the sweep as a page for Prefect's user interfaces."""
    return "\n".join(_page(request, ranked)) + "\n"


def _page(request: SweepRequest, ranked: Sequence[Tried]) -> Iterator[str]:
    best, keys = winner(ranked), list(request.over)
    yield f"# Sweep {request.name}: {request.pipeline}"
    yield from ("", f"**{escaped(headline(request, ranked))}**")
    if not best.gate.startswith("yes"):
        yield from ("", "No trial passed the gate.")
    # Otherwise the winner is a commit's own record: `main at 8607dbd`.
    mergeable = RUN_BRANCHES in best.branch and " " not in best.branch
    yield from ("", f"To run the winner again{', or to merge its branch' if mergeable else ''}:", "")
    yield from ("```console", f"$ {command(request, ranked)}")
    if mergeable:
        yield f"$ git merge {shlex.quote(best.branch)} && dvc checkout"
    yield "```"
    ranges = [key for key, over in request.over.items() if isinstance(over, Range)]
    drawings = {f"{request.metric} over trials": _over_trials(request, ranked)}
    drawings |= {f"{request.metric} over {key}": _over_values(request, ranked, key) for key in ranges}
    yield from pictures(drawings.items())
    head = [wrapped(key) for key in ("", request.metric, *keys, "gate", "branch")]
    rows = ([wrapped(_short(cell)) for cell in row.values()] for row in table(request, ranked))
    yield from page_table(head, rows, numbers=range(len(keys) + 2))


@drawn
def _over_trials(request: SweepRequest, ranked: Sequence[Tried]) -> "Figure":
    """Draw each trial's value in trial order, and the best so far."""
    tried = sorted(ranked, key=lambda trial: trial.number)
    numbers, values = [trial.number for trial in tried], [trial.value for trial in tried]
    bests = list(itertools.accumulate(values, max if request.goal == "max" else min))
    figure, [axes] = grid(WIDTH, HEIGHT)
    axes.step(numbers, bests, where="post", color=COLOURS[2], label="best so far")
    axes.plot(numbers, values, "o", color=COLOURS[0], markersize=5, label="trial")
    axes.set(xlabel="trial", title=label(request.metric))
    axes.locator_params(axis="x", integer=True)
    axes.grid(True)
    figure.legend(loc="outside upper right", ncols=2)
    return figure


@drawn
def _over_values(request: SweepRequest, ranked: Sequence[Tried], key: str) -> "Figure":
    """Draw each trial's value over one searched parameter; the winner in another colour."""
    dimension = request.over[key]
    assert isinstance(dimension, Range), "choices have no axis"
    best = winner(ranked)
    figure, [axes] = grid(WIDTH, HEIGHT)
    if dimension.log:
        logarithmic(axes)
    elif isinstance(dimension.low, int) and isinstance(dimension.high, int):
        axes.locator_params(axis="x", integer=True)
    for trials, colour, name in (
        ([trial for trial in ranked if trial is not best], COLOURS[0], "trial"),
        ([best], COLOURS[1], "winner"),
    ):
        places = [float(trial.values[key]) for trial in trials]
        axes.plot(places, [trial.value for trial in trials], "o", color=colour, markersize=5, label=name)
    axes.set(xlabel=label(key), title=label(request.metric))
    axes.grid(True)
    figure.legend(loc="outside upper right", ncols=2)
    return figure


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
