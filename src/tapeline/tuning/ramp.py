"""Smith's range test: train while the learning rate of every optimizer increases, and record each step's loss."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from tapeline.config.train import TrainSettings
from tapeline.dataset.columns import Dataset
from tapeline.recipe import Recipe, loading
from tapeline.recipe.context import current
from tapeline.runtime.errors import InputError, RunError
from tapeline.train import starting
from tapeline.train.assembly import assemble
from tapeline.train.checkpoints import class_rows
from tapeline.tuning.suggestion import Watch


@dataclass(frozen=True)
class Curve:
    """The result of the test."""

    metric: str
    optimizers: tuple[str, ...]
    """The recipe's attributes with the optimizers whose rate was varied."""
    rates: tuple[float, ...]
    losses: tuple[float, ...]
    """Finite, one per rate, up to divergence."""
    current: float | None
    """The recipe's parameter `learning_rate`, or `None` if it has none."""
    diverged: float | None
    """The rate at which the loss diverged, or `None` if it did not."""


def climb(
    recipe: Path,
    params: Mapping[str, Any],
    settings: TrainSettings,
    dataset: Dataset,
    *,
    low: float,
    high: float,
    steps: int,
    metric: str | None,
    weights: Path | None = None,
    classes: class_rows.Classes | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Curve:
    """Run `steps` steps while the rate grows exponentially from `low` to `high`, and stop at divergence.

    metric: one of the step's metrics; by default `loss`, else the first. Nothing is saved. weights: the folder of
    `train.init_from`. classes: label → the class names that these weights know; None when that is not known. say: told
    which weights were taken.
    Raises `InputError` for a recipe without a Keras optimizer, for a metric that it does not have, and for weights that
    do not fit.
    """
    known = classes if any(feature.classes for feature in dataset.features.values()) else {}
    rows = class_rows.find(recipe, params, dataset, known) if weights and known is not None else None
    ramp = keras.optimizers.schedules.ExponentialDecay(low, steps - 1, high / low)
    parts = assemble(recipe, params, settings, dataset, adapt=lambda built: _set_rates(built, ramp))
    if weights:
        starting.take(weights, parts.state, rows=rows, say=say)
    name = _chosen(metric, parts.loop.names)
    row = parts.loop.names.index(name)
    moved, rate_now = tuple(parts.recipe.optimizers()), getattr(parts.recipe.params, "learning_rate", None)
    watch, nothing = Watch(), tf.zeros([len(parts.loop.names), 2], tf.float64)
    rates: list[float] = []
    losses: list[float] = []
    with loading.blaming(recipe, RunError, "fails in a step"):
        for chunk in parts.feed.chunks(0, steps):
            for step in range(chunk.first, chunk.end):
                _, table, _ = parts.loop(chunk, step, step + 1, nothing)
                total, count = table.numpy()[0, row]
                if not count:
                    continue
                rate, loss = low * (high / low) ** (step / (steps - 1)), float(total / count)
                if watch.diverged(loss):
                    return Curve(name, moved, tuple(rates), tuple(losses), rate_now, rate)
                rates.append(rate)
                losses.append(loss)
    return Curve(name, moved, tuple(rates), tuple(losses), rate_now, None)


def _chosen(metric: str | None, names: Sequence[str]) -> str:
    if not names:
        raise InputError("the recipe's train_step returns no metric, so there is no loss to follow")
    if metric is not None and metric not in names:
        raise InputError(f"--metric is {metric!r}: train_step returns {', '.join(names)}")
    return metric or ("loss" if "loss" in names else names[0])


def _set_rates(recipe: Recipe, ramp: Any) -> None:
    """Set every optimizer's rate to the ramp over the run's steps, not over its updates: a step may have several."""

    found = recipe.optimizers()
    if not found:
        raise InputError(
            f"{type(recipe).__name__} has no Keras optimizer in any attribute, so there is no rate to find"
        )
    for optimizer in found.values():
        optimizer.learning_rate = lambda: ramp(current().step)
