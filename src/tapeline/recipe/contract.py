"""The contract between a recipe and the engine.

A recipe holds models and optimizers in any attributes and defines one step. The engine finds and
tracks every variable, compiles the step into its loop, and owns everything around it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ClassVar

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from tapeline.config.hyperparameters import RecipeParams, Transforms
from tapeline.dataset.columns import Feature
from tapeline.dataset.statistics import TrainStatistics
from tapeline.recipe import fused_layers, fused_updates, optimizers
from tapeline.recipe.autograph import as_written, convert, theirs
from tapeline.recipe.context import Context, current
from tapeline.recipe.gradients import summed, transform
from tapeline.recipe.noise import Noise
from tapeline.recipe.sharding import means, meetings, moments
from tapeline.recipe.variables import layers
from tapeline.runtime import keras_private
from tapeline.runtime.errors import InputError
from tapeline.runtime.records import Hook
from tapeline.runtime.saved_models import DEFAULT

Batch = Mapping[str, tf.Tensor]
"""Feature → tensor of shape (batch, *feature shape), as stored: scaling happens inside the step."""
Metrics = Mapping[str, tf.Tensor | tuple[tf.Tensor, tf.Tensor]]
"""Name → per-example tensor of shape (batch,), or a pair of scalars (sum, count); never a mean."""
Columns = Mapping[str, NDArray[Any]]
"""Feature → all values of a split, shape (examples, *feature shape), read-only."""


SET_BY_ENGINE = ("params", "features", "_statistics", "_transforms", "_fused", "_batch_size", "batch_size", "updated")
"""Attributes of every recipe, which a class of its own cannot define."""


_outside: ContextVar[bool] = ContextVar("outside", default=False)


@contextmanager
def outside_training() -> Iterator[None]:
    """Compute in the block what the other stages compute too, without what only training has.

    In this thread alone: tf.data calls `prepare` in others meanwhile.
    """
    token = _outside.set(True)
    try:
        yield
    finally:
        _outside.reset(token)


class Recipe(ABC):
    """Base class of every recipe. Implement `build`, `train_step` and `eval_step`; the rest has defaults."""

    Params: ClassVar[type[RecipeParams]] = RecipeParams
    """The type of the recipe's hyperparameters, and of `self.params`."""
    modes: ClassVar[Mapping[str, Sequence[str]]] = {
        "graph": ("float32", "mixed_bfloat16"),
        "xla": ("float32", "mixed_bfloat16"),
        "eager": ("float32", "mixed_bfloat16"),
    }
    """Compile mode → precisions that the recipe supports. All others are refused before training."""
    inputs: Sequence[str] | Mapping[str, Feature | Noise] = ()
    """The inputs of `predict`, and so of the exported model: names of features.

    If some inputs are not features, `build` sets a dict of name → type instead:
    `self.inputs = {"label": self.features["label"], "noise": Noise(100)}`.
    """
    target: ClassVar[str | None] = None
    """The feature that `predict` predicts, if there is one."""

    def __init__(
        self, params: RecipeParams, features: Mapping[str, Feature], statistics: TrainStatistics | None = None
    ) -> None:
        self.params: Any = params
        self.features = features
        self._statistics = statistics
        self._transforms: Mapping[str, Transforms] = {}
        self._fused = False
        self._batch_size: int | None = None
        self.updated: set[str] = set()
        """The names of the optimizers passed to `update`."""

    @property
    def batch_size(self) -> int:
        """Examples in a training step, or in one shard of it; for recipes that generate their data.

        Raises `InputError` in `build`, which the other stages call too, and in whatever is not part of training.
        """
        if self._batch_size is None or _outside.get():
            raise InputError(
                "self.batch_size is known in training only (prepare, train_step, and loss where `training` is true): "
                "elsewhere use a hyperparameter, such as the number of steps of a schedule"
            )
        return self._batch_size

    @batch_size.setter
    def batch_size(self, size: int) -> None:
        self._batch_size = size

    @property
    def statistics(self) -> TrainStatistics:
        """Statistics of the train split: `statistics["age"].mean`, `.std`, `.min`, `.max`; `statistics["kind"].counts`.

        They depend only on the dataset, so a constant computed from them is the same in every run, resumed or not, and
        in the exported model. Raises `InputError` for an unknown feature or a missing train split.
        """
        if self._statistics is None:
            raise InputError(f"{type(self).__name__} uses statistics, but was built without a dataset")
        return self._statistics

    def configure(
        self,
        *,
        batch_size: int,
        transforms: Mapping[str, Transforms] | None = None,
        shards: int = 1,
        fused: bool = False,
    ) -> None:
        """Apply the step settings of `params.yaml`. transforms: by optimizer name, as in `optimizers()`."""
        self.batch_size, self._transforms, self._fused = batch_size // shards, transforms or {}, fused
        for layer in layers(self):
            if shards > 1:
                moments.meet(layer)
            elif fused:
                fused_layers.fuse(layer)

    @abstractmethod
    def build(self) -> None:
        """Create the models and optimizers as attributes. Called once, with all random seeds set."""

    @abstractmethod
    def train_step(self, batch: Batch, context: Context) -> Metrics:
        """Run one training step and return the metrics to accumulate over the epoch. Must be traceable as a graph."""

    @abstractmethod
    def eval_step(self, batch: Batch, context: Context) -> Metrics:
        """Measure one batch without changing any state. Must be traceable as a graph."""

    def prepare(self, batch: Batch, context: Context) -> Batch:
        """Add random draws that belong outside the compiled step: latent noise, crop offsets, coin flips.

        Runs in the input pipeline, for training only. Use it for random draws and integer work; floating-point
        arithmetic on features belongs in the step, where the result does not depend on how the data is read.
        """
        return batch

    def predict(self, inputs: Batch) -> Mapping[str, tf.Tensor]:
        """Return named outputs of shape (batch, ...) for raw features. This function is exported."""
        raise InputError(
            f"{type(self).__name__} has no `predict`, which validate and export call: implement it, or `signatures`"
        )

    def served(self, data: Columns) -> Columns:
        """Return the inputs on which the exported model's outputs are recorded for a split: the features in `inputs`.

        `Noise` among the inputs is drawn once per example of the split. Override this for a model with other
        kinds of inputs. Every call must return the same values.
        """
        examples = len(next(iter(data.values())))
        kinds = self.inputs if isinstance(self.inputs, Mapping) else {}
        noise = {name: kind for name, kind in kinds.items() if isinstance(kind, Noise)}
        drawn = {name: kind.draw(examples, number) for number, (name, kind) in enumerate(noise.items())}
        if unknown := [name for name in self.inputs if name not in data and name not in drawn]:
            raise InputError(f"inputs names {', '.join(unknown)}: the features are {', '.join(data)}")
        return {name: drawn[name] if name in drawn else data[name] for name in self.inputs}

    def evaluate(self, data: Columns) -> Mapping[str, float]:
        """Return metrics of a split that cannot be summed over examples. Runs as plain Python; none by default."""
        return {}

    def pictures(self, data: Columns) -> Mapping[str, NDArray[np.uint8 | np.uint16]]:
        """Return images to show after each validation, of shape (height, width, 1 to 4); none by default."""
        return {}

    def hooks(self) -> Sequence[Hook]:
        """Return callables that observe training; each takes a record from `tapeline.recipe`. None by default.

        Called once in each process, before the first step. Between two loops each hook gets `Started`, `LoopEnded` or
        `Skipped`, and after a validation `Validated`. Where loops end depends on the machine's speed; a hook with a
        method `next_stop(step)` names the next step above `step` at which it must be called.

        A hook may observe, and end the run by raising `Stop`. It must not change what decides results: a hook that
        writes to a variable is refused by name, and so is one that changes Python state of the recipe that later steps
        or `evaluate` could read. No checkpoint holds a hook's own state: derive it from `Started.history`.
        """
        return ()

    def signatures(self) -> Mapping[str, Callable[..., Mapping[str, tf.Tensor]]]:
        """Return what to export: signature name → `tf.function` with an input signature."""
        kinds = self.inputs if isinstance(self.inputs, Mapping) else {name: self.features[name] for name in self.inputs}
        specs = [tf.TensorSpec((None, *kind.shape), kind.dtype, name=name) for name, kind in kinds.items()]

        @as_written
        def serve(*tensors: tf.Tensor) -> Mapping[str, tf.Tensor]:
            outputs: Mapping[str, tf.Tensor] = theirs(self.predict)(dict(zip(self.inputs, tensors, strict=True)))
            return outputs

        return {DEFAULT: tf.function(serve, input_signature=specs)}

    @as_written
    def update(self, optimizer: Any, variables: Sequence[Any], gradients: Sequence[tf.Tensor | None]) -> None:
        """Transform the gradients as set in `params.yaml` for this optimizer, and apply them.

        Raises `InputError` for a variable that the loss does not depend on, if there is none, and for an optimizer with
        averages that would never be used.
        """
        self.refuse_missing(variables, gradients)
        names = self._names(optimizer)
        optimizers.refuse_averages(optimizer, f"self.{names[0]}" if names else type(optimizer).__name__)
        self.updated.update(names)
        shard = meetings.running()
        if shard is None:
            self._apply(optimizer, variables, gradients)
        else:
            step, apply = shard.step, convert(self._apply)  # as this thread would, for another one does it
            meetings.meet(
                f"self.update of {names[0] if names else 'an optimizer'}",
                list(gradients),
                lambda brought: apply(optimizer, variables, means.batch_gradients(step, brought)),
            )

    @as_written
    def _apply(self, optimizer: Any, variables: Sequence[Any], gradients: Sequence[tf.Tensor]) -> None:
        transforms, number = self._settings(optimizer)
        gradients = [summed(gradient, variable) for gradient, variable in zip(gradients, variables, strict=True)]
        if transforms is not None:
            seed = None
            if transforms.noise is not None:
                # Each optimizer has noise of its own, in each of its updates of a step.
                seed = tf.random.fold_in(current().fold_in(1).seed, number)
                seed = tf.random.fold_in(seed, keras_private.updates(optimizer))
            gradients = transform(gradients, variables, transforms, seed)
        if self._fused:
            fused_updates.apply(optimizer, gradients, variables)
        else:
            theirs(optimizer.apply)(gradients, variables)

    @as_written
    def refuse_missing(self, variables: Sequence[Any], gradients: Sequence[tf.Tensor | None]) -> None:
        """Raise `InputError` if there is no variable, if one has no gradient, or if their numbers differ."""
        if not variables:
            raise InputError("update got no variables: nothing would be trained; is `trainable` false for all of them?")
        if len(variables) != len(gradients):
            raise InputError(f"update got {len(variables)} variables and {len(gradients)} gradients: give one for each")
        for variable, gradient in zip(variables, gradients, strict=True):
            if gradient is None:
                name = getattr(variable, "path", None) or variable.name
                raise InputError(f"no gradient for {name}: the loss does not depend on it; leave it out of the update")

    @as_written
    def optimizers(self) -> dict[str, Any]:
        """Return the optimizers by name: the attribute, or `attribute.key` for one in a dict or list."""
        found: dict[str, Any] = {}
        for name, value in vars(self).items():
            items = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
            inner = {f"{name}.{key}": item for key, item in items}
            found |= {n: v for n, v in {name: value, **inner}.items() if isinstance(v, keras.optimizers.Optimizer)}
        return found

    @as_written
    def _names(self, optimizer: Any) -> list[str]:
        """Return all names of an optimizer, which several attributes may hold."""
        return [name for name, value in self.optimizers().items() if value is optimizer]

    @as_written
    def _settings(self, optimizer: Any) -> tuple[Transforms | None, int]:
        """Return an optimizer's `train.gradients`, under any of its names, and its place among all."""
        names = self._names(optimizer)
        found = [self._transforms[name] for name in names if name in self._transforms]
        return (found[0], list(self.optimizers()).index(names[0])) if found else (None, 0)
