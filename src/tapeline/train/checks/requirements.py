"""Check before the first step what a recipe must declare and return for the run to finish."""

import inspect
from collections.abc import Collection, Mapping

import tensorflow as tf

from tapeline.config.train import TrainSettings
from tapeline.dataset.columns import Dataset
from tapeline.recipe import Noise, Recipe, optimizers, variables
from tapeline.recipe.evaluation import Evaluation
from tapeline.runtime.errors import InputError
from tapeline.train.checks.project_code import names_in


def check_mode(kind: type[Recipe], settings: TrainSettings) -> None:
    """Raise `InputError` for a compile mode or precision that the recipe does not list in `modes`."""
    if settings.compile not in kind.modes or settings.precision not in kind.modes[settings.compile]:
        known = "; ".join(f"{mode}: {', '.join(precisions)}" for mode, precisions in kind.modes.items())
        raise InputError(
            f"{kind.__name__} does not support {settings.compile} with {settings.precision}: it supports {known}"
        )


def check_settings(recipe: Recipe, settings: TrainSettings) -> None:
    """Raise `InputError` for settings that this recipe would ignore or not apply as requested."""
    name = type(recipe).__name__
    _check_names(recipe)
    if unknown := settings.gradients.keys() - recipe.optimizers().keys():
        known = ", ".join(recipe.optimizers()) or "not in attributes, lists or dicts, or not Keras'"
        raise InputError(f"train.gradients names {', '.join(sorted(unknown))}: the optimizers of {name} are {known}")
    named: dict[int, str] = {}
    for attribute, optimizer in recipe.optimizers().items():
        if attribute in settings.gradients and (other := named.setdefault(id(optimizer), attribute)) != attribute:
            raise InputError(f"train.gradients names {other} and {attribute}, which are one optimizer: name it once")
        if attribute in settings.gradients and optimizers.scales_loss(optimizer):
            raise InputError(
                f"train.gradients names {attribute}, which scales the loss, so that scaled gradients would be "
                "transformed: leave out one of the two"
            )
        optimizers.refuse_averages(optimizer, f"self.{attribute}")
    if settings.precision != "float32" and not any(True for _ in variables.layers(recipe)):
        raise InputError(
            f"train.precision is {settings.precision}: {name} has no Keras layer, and only Keras layers obey a dtype "
            "policy: use float32"
        )
    if settings.in_graph_epochs > 1 and type(recipe).evaluate is not Recipe.evaluate:
        raise InputError(
            f"train.in_graph_epochs is {settings.in_graph_epochs}: {name}.evaluate is Python and cannot run inside a "
            "graph: set it to 1"
        )


def check_updated(recipe: Recipe, settings: TrainSettings) -> None:
    """Raise `InputError` for `train.gradients` of an optimizer that the traced step did not pass to `update`."""
    if ignored := settings.gradients.keys() - recipe.updated:
        raise InputError(
            f"train.gradients names {', '.join(sorted(ignored))}, which train_step applies itself: call "
            "self.update(optimizer, variables, gradients), which follows the settings"
        )


def check_built(recipe: Recipe, built: Collection[str], found: Collection[str]) -> None:
    """Raise `InputError` for a recipe without weights, and for a weight that tracing created: what validates and
    exports builds the recipe only.

    built, found: the names of the weights before and after tracing.
    """
    if late := [name for name in found if name not in built]:
        raise InputError(
            f"{type(recipe).__name__} creates {late[0]} in its first step, so nothing could load it: create it in "
            "`build`, for a model by adding keras.Input, or by calling it once: self.model(tf.zeros((1, 4)))"
        )
    if not found:
        raise InputError(
            f"{type(recipe).__name__} has no weight, so there is nothing to train: create a model or a tf.Variable in "
            "`build`"
        )


def check(
    recipe: Recipe, settings: TrainSettings, dataset: Dataset, measured: list[str], evaluation: Evaluation | None
) -> None:
    """Raise `InputError` for features that the dataset lacks, and for metrics that are not returned.

    measured: the names of the metrics that `train_step` returned when it was traced. Traces `eval_step`, which would
    otherwise happen at the first validation.
    """
    _check_features(recipe, dataset)
    _check_measured(recipe)
    name = type(recipe).__name__
    if not measured:
        raise InputError(f"{name}.train_step returns no metric: return at least one, such as {{'loss': losses}}")
    if taken := [one for one in measured if one in ("step", "epoch") or one.startswith("val_")]:
        raise InputError(
            f"{name}.train_step returns a metric {taken[0]!r}: history.csv has step, epoch and the val_… of "
            f"validations under such names; give it another"
        )
    if evaluation is None:
        return
    evaluation.trace()
    more = type(recipe).evaluate is not Recipe.evaluate
    if not evaluation.names and not more:
        raise InputError(f"{name}.eval_step returns no metric: return at least one, such as {{'loss': losses}}")
    if settings.best and not more:  # the metrics of `evaluate` are known only after calling it
        settings.best.among(evaluation.names)


def _check_names(recipe: Recipe) -> None:
    """Raise `InputError` for an attribute in the place of a method, and for a step that is a `tf.function`."""
    for attribute, value in vars(recipe).items():
        if callable(getattr(Recipe, attribute, None)) and not callable(value):
            raise InputError(
                f"self.{attribute} is a {type(value).__name__}, but every recipe has a method of that name: rename the "
                "attribute"
            )
    for method in ("train_step", "eval_step", "prepare"):
        if isinstance(getattr(recipe, method), tf.types.experimental.PolymorphicFunction):
            raise InputError(
                f"{type(recipe).__name__}.{method} is a tf.function: remove the decorator; train.compile says how it "
                f"is compiled"
            )


def _check_measured(recipe: Recipe) -> None:
    """Raise `InputError` for an optimizer in what validate calls too, where it is a new one."""
    kind = type(recipe)
    optimizers = {name.partition(".")[0] for name in recipe.optimizers()}
    for method in ("evaluate", "pictures", "served"):
        code = getattr(inspect.unwrap(getattr(kind, method)), "__code__", None)
        if code and (used := sorted(optimizers & names_in(code))):
            raise InputError(
                f"{kind.__name__}.{method} uses self.{used[0]}, which only training has, so that validate would see a "
                "new one: keep what it needs in a tf.Variable of the recipe"
            )


def _check_features(recipe: Recipe, dataset: Dataset) -> None:
    kind, known = type(recipe), dataset.features
    if not isinstance(recipe.target, str | None):
        raise InputError(
            f"{kind.__name__}.target is a {type(recipe.target).__name__}, but it is the name of the feature that "
            "`predict` predicts: rename the attribute"
        )
    if recipe.target is not None and recipe.target not in known:
        raise InputError(
            f"{kind.__name__}.target is {recipe.target!r}: the features of {dataset.name} are {', '.join(known)}"
        )
    declared = recipe.inputs if isinstance(recipe.inputs, Mapping) else {}
    own = kind.served is not Recipe.served and (declared or kind.signatures is not Recipe.signatures)
    for name in () if own else recipe.inputs:
        if name not in known and not isinstance(declared.get(name), Noise):
            wrong = f"{kind.__name__}.inputs names {name!r}: the features of {dataset.name} are {', '.join(known)}"
            letters = isinstance(recipe.inputs, str)
            raise InputError(f"{wrong}; inputs is a string: write ({recipe.inputs!r},)" if letters else wrong)
