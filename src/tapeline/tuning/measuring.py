"""Measure one mode: how long it compiles, how fast it trains, and its loss after the first steps."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tapeline.config.params import checked
from tapeline.config.train import TrainSettings
from tapeline.dataset.columns import Dataset
from tapeline.recipe import loading
from tapeline.runtime.errors import RunError
from tapeline.train.assembly import Assembled, assemble
from tapeline.train.data.feed import Chunk
from tapeline.train.engine.pace import Pace
from tapeline.tuning.choice import Measured, Mode

PATIENCE = 10
"""A mode that has not done its steps after this multiple of the requested time is abandoned as too slow."""

CHUNK = 1024
"""Minimum number of steps to feed at once: restarting a shorter run would take more time than its steps."""


def measure(
    recipe: Path,
    params: Mapping[str, Any],
    settings: TrainSettings,
    dataset: Dataset,
    mode: Mode,
    *,
    steps: int,
    seconds: float,
) -> Measured:
    """Build the recipe from scratch in one mode, train it for `steps` steps and at least `seconds`, then discard it.

    Loops are as long as the engine's. All modes see the same batches from the same weights. A compilation cannot
    be interrupted; the steps after it are limited by `PATIENCE`.
    Raises `InputError` for a mode that the recipe or its optimizer does not have, or that the other settings exclude.
    """
    asked = checked(TrainSettings, settings.model_dump(mode="json") | mode._asdict(), where="train")
    parts = assemble(recipe, params, asked, dataset)
    name = "loss" if "loss" in parts.loop.names else next(iter(parts.loop.names), None)
    total, number = 0.0, 0.0
    speeds: list[tuple[float, int]] = []
    compiling, began, done = 0.0, 0.0, 0
    half = steps - steps // 2
    first_loss = float("nan")
    with loading.blaming(recipe, RunError, "fails in a step"):
        for ran in _loops(parts, asked, steps=steps, stops=(1, half, steps)):
            if ran.start == 0:
                compiling, began = ran.seconds, time.perf_counter()
                first_loss = ran.mean(name)
                continue
            speeds.append((ran.steps / ran.seconds, ran.steps))
            spent = time.perf_counter() - began
            if half <= ran.start < steps and name is not None:
                total, number = total + ran.sums[name][0], number + ran.sums[name][1]
            if (ran.end >= steps and spent >= seconds) or spent >= PATIENCE * seconds:
                done = ran.end
                break
    loss = total / number if done >= steps and number else None
    rate = weighted_median(speeds) * settings.batch_size
    return Measured(mode, compiling, rate, first_loss, loss, done)


@dataclass(frozen=True)
class _Ran:
    start: int
    end: int
    seconds: float
    sums: Mapping[str, tuple[float, float]]

    @property
    def steps(self) -> int:
        return self.end - self.start

    def mean(self, name: str | None) -> float:
        total, number = self.sums.get(name or "", (0.0, 0.0))
        return total / number if number else float("nan")


def _loops(parts: Assembled, settings: TrainSettings, *, steps: int, stops: tuple[int, ...]) -> Iterator[_Ran]:
    """Train indefinitely, one loop at a time; `stops` are steps at which a loop must end."""
    pace, nothing = Pace(), tf.zeros([len(parts.loop.names), 2], tf.float64)
    for chunk in _chunks(parts, max(steps, settings.epochs * parts.batches.steps_per_epoch, CHUNK)):
        step = chunk.first
        while step < chunk.end:
            ahead = (stop for stop in stops if stop > step)
            end = pace.end(step, (chunk.end, parts.loop.next_stop(step), *ahead))
            began = time.perf_counter()
            reached, table, _ = parts.loop(chunk, step, end, nothing)
            summed = table.numpy().sum(0)
            seconds = time.perf_counter() - began
            if step:
                pace.took(reached - step, seconds)
            pairs = {name: (float(row[0]), float(row[1])) for name, row in zip(parts.loop.names, summed, strict=True)}
            yield _Ran(step, reached, seconds, pairs)
            step = reached


def _chunks(parts: Assembled, horizon: int) -> Iterator[Chunk]:
    """Yield chunks forever, all with the shape of a run of `horizon` steps."""
    return chain.from_iterable(parts.feed.chunks(n * horizon, (n + 1) * horizon) for n in count())


def weighted_median(values: list[tuple[float, int]]) -> float:
    """Return the weighted median of (value, weight) pairs, so that short loops count little; 0 without values."""
    if not values:
        return 0.0
    ordered = sorted(values)
    weights = np.cumsum([weight for _, weight in ordered])
    return ordered[int(np.searchsorted(weights, weights[-1] / 2))][0]
