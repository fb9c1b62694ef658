"""A recipe with all that its run needs, at step 0: feed, loop, state, evaluation."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from tapeline.dataset import Dataset
from tapeline.errors import InputError
from tapeline.recipe import Recipe, Supervised, evaluation, loading, variables
from tapeline.train import completeness
from tapeline.train.averaging import Average
from tapeline.train.batches import Batches
from tapeline.train.feed import Feed
from tapeline.train.in_graph import InGraphValidation
from tapeline.train.loop import Loop
from tapeline.train.memory import fits_in_ram
from tapeline.train.settings import TrainSettings
from tapeline.train.state import State


def assemble(path: Path, params: Mapping[str, Any], settings: TrainSettings, dataset: Dataset) -> "Assembled":
    """Load and build a recipe and everything that its run needs. Raises `InputError` for what the recipe cannot do."""
    kind = loading.load(path)
    if settings.compile not in kind.modes or settings.precision not in kind.modes[settings.compile]:
        known = "; ".join(f"{mode}: {', '.join(precisions)}" for mode, precisions in kind.modes.items())
        raise InputError(
            f"{kind.__name__} does not support {settings.compile} with {settings.precision}; it has {known}"
        )
    recipe = loading.build(path, params, dataset.features, seed=settings.seed, precision=settings.precision)
    _check(recipe, settings)
    recipe.configure(
        batch_size=settings.batch_size,
        transforms=settings.gradients,
        accumulate=settings.accumulate,
        replicas=settings.replicas,
        fused=settings.fused,
    )
    with loading.blaming(path, InputError, "does not trace"):
        return Assembled(recipe, settings, dataset)


def _check(recipe: Recipe, settings: TrainSettings) -> None:
    """Refuse settings that this recipe would not obey, or not as asked."""
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
    """What an engine runs. Everything that it changes is in `state`."""

    def __init__(self, recipe: Recipe, settings: TrainSettings, dataset: Dataset) -> None:
        self.recipe = recipe
        key = tf.constant([settings.seed, 0], tf.int32)
        self.batches = _batches(settings, dataset)
        stored = dataset.features if "train" in dataset.splits else ()
        columns = {name: dataset.column("train", name) for name in stored}
        in_ram = settings.data == "ram" or (
            settings.data == "auto" and (not stored or fits_in_ram(dataset.nbytes("train")))
        )
        self.feed = Feed(recipe, columns, self.batches, key=key, in_ram=in_ram)
        self.evaluation = (
            evaluation.Evaluation(
                recipe, dataset, "val", batch_size=settings.batch_size * 4, key=key, eager=settings.compile == "eager"
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
        plain = completeness.plain_attributes(recipe)
        traced = self.loop.trace()
        completeness.check_unchanged(plain, completeness.plain_attributes(recipe))
        found = variables.find(recipe)
        completeness.check(traced, {**found.all(), "stop": self.loop.stop})
        average = Average(found.weights, settings.ema) if settings.ema else None
        if average:
            self.loop.after_step = average.step
        if inside:
            inside.average = average
        self.state = State(found.all(), tuple(found.weights), tuple(self.loop.names), average=average)
        self.loop.guarded = [variable for variable in self.state.variables.values() if variable.dtype.is_floating]


def _batches(settings: TrainSettings, dataset: Dataset) -> Batches:
    if "train" not in dataset.splits:
        assert settings.steps_per_epoch is not None, "train/stage.py has refused this"
        return Batches.drawn(settings.batch_size, steps_per_epoch=settings.steps_per_epoch, seed=settings.seed)
    return Batches.plan(
        dataset.examples("train"), batch_size=settings.batch_size, seed=settings.seed, shuffle=settings.shuffle
    )
