"""Assemble a recipe with everything its run needs, at step 0: feed, loop, state, evaluation."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tapeline.config.train import TrainSettings
from tapeline.dataset.columns import Dataset
from tapeline.dataset.statistics import TrainStatistics
from tapeline.recipe import Recipe, loading, variables
from tapeline.recipe.evaluation import Evaluation
from tapeline.runtime import environment, write_order
from tapeline.runtime.errors import InputError
from tapeline.train.checks import addresses, completeness, python_state, repeatability, requirements
from tapeline.train.checks.repeatability import Made
from tapeline.train.data.batches import Batches
from tapeline.train.data.feed import Feed
from tapeline.train.data.memory import fits_in_ram
from tapeline.train.engine import guard
from tapeline.train.engine.averaging import Average
from tapeline.train.engine.in_graph import InGraphValidation
from tapeline.train.engine.loop import Loop
from tapeline.train.engine.state import State
from tapeline.train.engine.step import Step

OTHER = 1
"""Seed offset for the first of two assemblies: a random number drawn while tracing then shows as a difference."""


@dataclass(frozen=True, kw_only=True)
class Assembled:
    """What an engine runs. Everything the engine changes is in `state`."""

    recipe: Recipe
    batches: Batches
    feed: Feed
    evaluation: Evaluation | None
    loop: Loop
    state: State
    made: Made
    unchecked: Sequence[int]
    """The recipe's lines whose assertions XLA leaves out."""


def assemble_twice(
    path: Path,
    params: Mapping[str, Any],
    settings: TrainSettings,
    dataset: Dataset,
    *,
    first_look: Callable[[Assembled], None] = lambda assembled: None,
) -> Assembled:
    """Assemble, and refuse a recipe that differs at each start; see `repeatability`.

    first_look: called with the first of the two, which is not trained.
    """
    statistics = TrainStatistics(dataset)
    first = assemble(path, params, settings, dataset, statistics=statistics, drawn=OTHER)
    digests, loaded = first.made.digests, first.feed.columns
    first_look(first)
    del first
    with addresses.shuffled():
        second = assemble(path, params, settings, dataset, statistics=statistics, loaded=loaded)
    repeatability.check_same(path, digests, second.made)
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
    adapt: Callable[[Recipe], None] = lambda recipe: None,
) -> Assembled:
    """Load and build a recipe and everything its run needs. Raises `InputError` for settings it does not support.

    statistics, loaded: statistics and in-memory columns from another assembly, to reuse. drawn: added to the seed of
    the global generators of Python and NumPy before the recipe is traced. adapt: called with the recipe before that.
    """
    write_order.keep()
    requirements.check_mode(loading.load(path), settings)
    recipe = loading.build(
        path,
        params,
        dataset.features,
        statistics=statistics or TrainStatistics(dataset),
        seed=settings.seed,
        precision=settings.precision,
    )
    requirements.check_settings(recipe, settings)
    with loading.blaming(path, InputError, "does not build"):
        recipe.configure(
            batch_size=settings.batch_size,
            transforms=settings.gradients,
            shards=settings.shards,
            fused=settings.fused,
        )
    adapt(recipe)
    if drawn:
        random.seed(settings.seed + drawn)
        np.random.seed((settings.seed + drawn) % 2**32)
    with loading.blaming(path, InputError, "does not trace", features=dataset.features):
        return _traced(recipe, settings, dataset, path, loaded)


def _traced(
    recipe: Recipe, settings: TrainSettings, dataset: Dataset, path: Path, loaded: Mapping[str, tf.Tensor] | None
) -> Assembled:
    """Trace a built recipe, and put together what runs it."""
    built = variables.find(recipe)
    initial = variables.snapshot(built.all())  # before tracing, which may create more states
    key = tf.constant([settings.seed, 0], tf.int32)
    batches = _batches(settings, dataset)
    check_python = python_state.Tracing(recipe)
    feed = _feed(recipe, settings, dataset, batches, key, loaded)
    check_python("prepare")
    evaluation = _evaluation(recipe, settings, dataset, key)
    at_once = settings.at_once or environment.cores()
    step = Step(
        recipe,
        feed,
        key=key,
        mode=settings.compile,
        shards=settings.shards,
        at_once=at_once if settings.one_thread else None,
    )
    check_python("train_step")
    check_python.counts("train_step", step.trace_again)
    requirements.check(recipe, settings, dataset, step.names, evaluation)
    requirements.check_updated(recipe, settings)
    found = variables.find(recipe)
    requirements.check_built(recipe, built.weights, found.weights)
    made = _checked(recipe, settings, step, evaluation, initial=initial, path=path)
    check_python("eval_step")
    step.check_writes(path)  # last: a step that nobody may take is refused for that
    average = Average(found.weights, settings.ema) if settings.ema else None
    inside = None
    if evaluation and settings.in_graph_epochs > 1:
        inside = InGraphValidation(evaluation, settings, steps_per_epoch=batches.steps_per_epoch, average=average)
    metrics = (*step.names, *(inside.names if inside else ()))
    state = State(found.all(), tuple(found.weights), metrics, average=average)
    loop = Loop(
        step,
        mode=settings.compile,
        steps_per_epoch=batches.steps_per_epoch,
        validation=inside,
        after_step=average.step if average else lambda: None,
        guarded=list(filter(guard.is_guarded, state.variables.values())),
    )
    return Assembled(
        recipe=recipe,
        batches=batches,
        feed=feed,
        evaluation=evaluation,
        loop=loop,
        state=state,
        made=made,
        unchecked=completeness.unchecked(step.traced, path) if settings.compile == "xla" else [],
    )


def _feed(
    recipe: Recipe,
    settings: TrainSettings,
    dataset: Dataset,
    batches: Batches,
    key: tf.Tensor,
    loaded: Mapping[str, tf.Tensor] | None,
) -> Feed:
    stored = dataset.features if "train" in dataset.splits else ()
    columns = {name: dataset.column("train", name) for name in stored}
    in_ram = settings.data == "ram" or (
        settings.data == "auto" and (not stored or fits_in_ram(dataset.nbytes("train")))
    )
    return Feed(recipe, columns, batches, key=key, in_ram=in_ram, loaded=loaded, shards=settings.shards)


def _evaluation(recipe: Recipe, settings: TrainSettings, dataset: Dataset, key: tf.Tensor) -> Evaluation | None:
    if "val" not in dataset.splits:
        return None
    return Evaluation(
        recipe,
        dataset,
        "val",
        batch_size=settings.batch_size * 4,
        key=key,
        eager=settings.compile == "eager",
        watch=lambda: python_state.Watch(recipe, "evaluate", generators=False),
    )


def _checked(
    recipe: Recipe,
    settings: TrainSettings,
    step: Step,
    evaluation: Evaluation | None,
    *,
    initial: Mapping[str, tf.Tensor],
    path: Path,
) -> Made:
    """Refuse by name what a checkpoint could not hold, in all traced functions; return the values of this start."""
    found, tables = variables.find(recipe), variables.tables(recipe)
    tracked = found.all()
    handles = frozenset(id(table.resource_handle) for table in tables.values())
    traced = {"train_step": step.traced}
    one = settings.operation_threads == 1
    completeness.check(step.traced, tracked | step.seeds, tables=handles, in_order=one or settings.compile == "xla")
    if step.sharded:
        completeness.check_shards(step.traced, tracked, drawn={**found.seeds, **step.seeds})
    if step.feed.traced:
        traced["prepare"] = step.feed.traced
        changed = completeness.written(step.traced)
        still = {name: v for name, v in tracked.items() if id(v.handle) not in changed}
        completeness.check(step.feed.traced, still, where="prepare", writable={}, tables=handles, in_order=one)
    if evaluation:
        examples = f"does not trace in eval_step, whose batches have up to {evaluation.batch_size} examples"
        with loading.blaming(path, InputError, examples):
            traced["eval_step"] = evaluation.trace()
        found = variables.find(recipe)  # a generator may be made when it is traced
        seeds, known = found.seeds, tracked | found.seeds
        completeness.check(traced["eval_step"], known, where="eval_step", writable=seeds, tables=handles, in_order=one)
        completeness.check_measured(traced["eval_step"], found.optimizers, "eval_step")
    known = found.all() | step.seeds
    return repeatability.made(traced, initial, tracked=known, tables=tables, data=step.feed.columns, source=str(path))


def _batches(settings: TrainSettings, dataset: Dataset) -> Batches:
    if "train" not in dataset.splits:
        assert settings.steps_per_epoch is not None, "train/stage.py has refused this"
        return Batches.drawn(settings.batch_size, steps_per_epoch=settings.steps_per_epoch, seed=settings.seed)
    return Batches.plan(
        dataset.examples("train"), batch_size=settings.batch_size, seed=settings.seed, shuffle=settings.shuffle
    )
