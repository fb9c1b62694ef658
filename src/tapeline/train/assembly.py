"""Assemble a recipe with everything its run needs, at step 0: feed, loop, state, evaluation."""

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tapeline.config.train import TrainSettings
from tapeline.dataset.columns import Dataset
from tapeline.dataset.statistics import TrainStatistics
from tapeline.recipe import Recipe, Supervised, evaluation, loading, variables
from tapeline.runtime.errors import InputError
from tapeline.train.checks import completeness, python_state, repeatability, requirements
from tapeline.train.checks.repeatability import Made
from tapeline.train.data.batches import Batches
from tapeline.train.data.feed import Feed
from tapeline.train.data.memory import fits_in_ram
from tapeline.train.engine.averaging import Average
from tapeline.train.engine.in_graph import InGraphValidation
from tapeline.train.engine.loop import Loop
from tapeline.train.engine.state import State

OTHER = 1
"""Seed offset for the first of two assemblies: a random number drawn while tracing then shows as a difference."""


def assemble_twice(
    path: Path,
    params: Mapping[str, Any],
    settings: TrainSettings,
    dataset: Dataset,
    *,
    first_look: Callable[["Assembled"], None] = lambda assembled: None,
) -> "Assembled":
    """Assemble, and refuse a recipe that differs at each start; see `repeatability`.

    first_look: called with the first of the two, which is not trained.
    """
    statistics = TrainStatistics(dataset)
    first = assemble(path, params, settings, dataset, statistics=statistics, drawn=OTHER)
    made, loaded = first.made, first.feed.columns
    first_look(first)
    del first
    second = assemble(path, params, settings, dataset, statistics=statistics, loaded=loaded)
    repeatability.check_same(path, made, second.made)
    return second


def assemble(
    path: Path,
    params: Mapping[str, Any],
    settings: TrainSettings,
    dataset: Dataset,
    *,
    statistics: TrainStatistics | None = None,
    loaded: Mapping[str, tf.Tensor] | None = None,
    drawn: int = 0,
) -> "Assembled":
    """Load and build a recipe and everything its run needs. Raises `InputError` for settings it does not support.

    statistics, loaded: statistics and in-memory columns from another assembly, to reuse. drawn: added to the seed of
    the global generators of Python and NumPy before the recipe is traced.
    """
    kind = loading.load(path)
    if settings.compile not in kind.modes or settings.precision not in kind.modes[settings.compile]:
        known = "; ".join(f"{mode}: {', '.join(precisions)}" for mode, precisions in kind.modes.items())
        raise InputError(
            f"{kind.__name__} does not support {settings.compile} with {settings.precision}; it has {known}"
        )
    recipe = loading.build(
        path,
        params,
        dataset.features,
        statistics=statistics or TrainStatistics(dataset),
        seed=settings.seed,
        precision=settings.precision,
    )
    _check(recipe, settings)
    recipe.configure(
        batch_size=settings.batch_size,
        transforms=settings.gradients,
        accumulate=settings.accumulate,
        replicas=settings.replicas,
        fused=settings.fused,
    )
    if drawn:
        random.seed(settings.seed + drawn)
        np.random.seed((settings.seed + drawn) % 2**32)
    with loading.blaming(path, InputError, "does not trace"):
        return Assembled(recipe, settings, dataset, path, loaded)


def _check(recipe: Recipe, settings: TrainSettings) -> None:
    """Refuse settings that this recipe would ignore or not apply as requested."""
    name = type(recipe).__name__
    if unknown := settings.gradients.keys() - recipe.optimizers().keys():
        known = ", ".join(recipe.optimizers()) or "none"
        raise InputError(f"train.gradients names {', '.join(sorted(unknown))}: the optimizers of {name} are {known}")
    layers = list(variables.layers(recipe))
    if settings.precision != "float32" and not layers:
        raise InputError(
            f"train.precision is {settings.precision}: {name} has no Keras layer, and no other obeys a dtype policy"
        )
    if settings.in_graph_epochs > 1 and type(recipe).evaluate is not Recipe.evaluate:
        raise InputError(
            f"train.in_graph_epochs is {settings.in_graph_epochs}: {name}.evaluate is Python, outside graphs"
        )
    cuts = {"accumulate": settings.accumulate, "replicas": settings.replicas}
    for asked in (f"train.{cut} is {parts}" for cut, parts in cuts.items() if parts > 1):
        if not isinstance(recipe, Supervised) or type(recipe).train_step is not Supervised.train_step:
            raise InputError(f"{asked}: {name} writes its own step, so it must do that")
        if normalized := [layer.name for layer in layers if type(layer).__name__ == "BatchNormalization"]:
            raise InputError(
                f"{asked}: {normalized[0]} normalizes each micro-batch by itself, which is not the large batch: "
                f"use another normalization"
            )


class Assembled:
    """What an engine runs. Everything the engine changes is in `state`."""

    def __init__(
        self,
        recipe: Recipe,
        settings: TrainSettings,
        dataset: Dataset,
        path: Path,
        loaded: Mapping[str, tf.Tensor] | None = None,
    ) -> None:
        self.recipe = recipe
        initial = variables.snapshot(variables.find(recipe).all())  # before tracing, which may create more states
        key = tf.constant([settings.seed, 0], tf.int32)
        self.batches = _batches(settings, dataset)
        stored = dataset.features if "train" in dataset.splits else ()
        columns = {name: dataset.column("train", name) for name in stored}
        in_ram = settings.data == "ram" or (
            settings.data == "auto" and (not stored or fits_in_ram(dataset.nbytes("train")))
        )
        self.feed = Feed(recipe, columns, self.batches, key=key, in_ram=in_ram, loaded=loaded)
        self.evaluation = (
            evaluation.Evaluation(
                recipe,
                dataset,
                "val",
                batch_size=settings.batch_size * 4,
                key=key,
                eager=settings.compile == "eager",
                watch=lambda: python_state.Watch(recipe, "evaluate", generators=False),
            )
            if "val" in dataset.splits
            else None
        )
        inside = None
        if settings.in_graph_epochs > 1 and self.evaluation:
            inside = InGraphValidation(self.evaluation, settings, steps_per_epoch=self.batches.steps_per_epoch)
        self.loop = Loop(
            recipe,
            self.feed,
            key=key,
            seeds=variables.find(recipe).seeds,
            mode=settings.compile,
            steps_per_epoch=self.batches.steps_per_epoch,
            validation=inside,
        )
        plain = python_state.attributes(recipe)
        step = self.loop.trace()
        python_state.check_traced(plain, recipe)
        requirements.check(recipe, settings, dataset, self.loop.names, self.evaluation)
        if ignored := settings.gradients.keys() - recipe.updated:
            raise InputError(
                f"train.gradients names {', '.join(sorted(ignored))}, which train_step applies by itself: call "
                f"self.update(optimizer, variables, gradients), which obeys the settings"
            )
        found = variables.find(recipe)
        self.made = self._checked(step, found, initial, path)
        average = Average(found.weights, settings.ema) if settings.ema else None
        if average:
            self.loop.after_step = average.step
        if inside:
            inside.average = average
        self.state = State(found.all(), tuple(found.weights), tuple(self.loop.names), average=average)
        self.loop.guarded = [variable for variable in self.state.variables.values() if variable.dtype.is_floating]

    def _checked(self, step: Any, found: variables.Variables, initial: Mapping[str, tf.Tensor], path: Path) -> Made:
        """Refuse by name what a checkpoint could not hold, in all traced functions; return the values of this start."""
        tracked, tables = found.all(), variables.tables(self.recipe)
        traced = {"train_step": step}
        completeness.check(step, {**tracked, "stop": self.loop.stop}, tables=tables)
        if self.feed.traced:
            traced["prepare"] = self.feed.traced
            changed = completeness.written(step)
            still = {name: v for name, v in tracked.items() if id(v.handle) not in changed}
            completeness.check(self.feed.traced, still, where="prepare", writable={}, tables=tables)
        if self.evaluation:
            traced["eval_step"] = self.evaluation.trace()
            seeds = variables.find(self.recipe).seeds
            known = tracked | seeds
            completeness.check(traced["eval_step"], known, where="eval_step", writable=seeds, tables=tables)
        return repeatability.made(traced, initial, data=self.feed.columns.values(), source=str(path))


def _batches(settings: TrainSettings, dataset: Dataset) -> Batches:
    if "train" not in dataset.splits:
        assert settings.steps_per_epoch is not None, "train/stage.py has refused this"
        return Batches.drawn(settings.batch_size, steps_per_epoch=settings.steps_per_epoch, seed=settings.seed)
    return Batches.plan(
        dataset.examples("train"), batch_size=settings.batch_size, seed=settings.seed, shuffle=settings.shuffle
    )
