"""Check ahead, as far as possible, what happens after training, so that a late mistake does not waste a run."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tensorflow as tf

from tapeline.config.train import TrainSettings
from tapeline.dataset.columns import Dataset, Feature
from tapeline.parsing import json_text
from tapeline.recipe import Recipe, loading, predicting, variables
from tapeline.recipe.contract import Columns, outside_training
from tapeline.recipe.evaluation import Evaluation
from tapeline.runtime import files
from tapeline.runtime.errors import InputError
from tapeline.runtime.saved_models import DEFAULT
from tapeline.train.checks import completeness, repeatability, signatures

RECORD = "answers.json"
"""Kept with the checkpoints, so that a start that is known need not trace what will be exported again."""


@dataclass(frozen=True)
class Rehearsed:
    """The outputs and metrics that a recipe will produce."""

    target: str | None
    kind: Feature | None
    """The target's type, if there is a target."""
    answers: Mapping[str, predicting.Answer]
    """The outputs of the default signature."""
    measured: Collection[str] | None
    """The metrics of a validation; None at a known start without a validation split."""


Expect = Callable[[Rehearsed], None]
"""Raises `InputError` for a mistake that a stage after training would find."""


def answers(recipe: Recipe, path: Path, data: Columns | None) -> dict[str, predicting.Answer]:
    """Trace what will be exported, and return the types of its outputs. Raises `InputError` if it is invalid.

    data: of the split that validate will predict; an own `served` is called with them. Tracing may create variables and
    advance random generators: do not use the recipe object that will be trained.
    """
    name = type(recipe).__name__
    own = type(recipe).signatures is not Recipe.signatures
    if not own and not recipe.inputs:
        raise InputError(f"{name}.inputs is empty: list the features that predict takes, such as inputs = ('x',)")
    what = "does not trace in signatures" if own else "does not trace in predict"
    with loading.blaming(path, InputError, what), outside_training():
        made: Mapping[str, Any] = recipe.signatures()
        if DEFAULT not in made:
            raise InputError(f"{name}.signatures has {', '.join(made) or 'nothing'}: {DEFAULT} is missing")
        given = _given(recipe, path, data)
        found = {}
        for key, function in made.items():
            signatures.check_inputs(f"{name}: {key}", function.input_signature, given if key == DEFAULT else None)
            traced = function.get_concrete_function()
            said = f"{name}: {key if own else 'predict'}"
            found[key] = signatures.checked_outputs(said, traced.structured_outputs)
            completeness.check_measured(traced, variables.find(recipe).optimizers, said)
            signatures.check_held(said, traced, recipe)
            if key == DEFAULT:
                completeness.check_served(traced, said)
                signatures.check_batched(said, found[key])
        names = predicting.inputs(made[DEFAULT])
        if not names:
            raise InputError(f"{name}: {DEFAULT} takes no input, so validate cannot call it: give it one")
        if given is not None:
            predicting.check_given(names, given)
    return found[DEFAULT]


def _given(recipe: Recipe, path: Path, data: Columns | None) -> Mapping[str, predicting.Answer] | None:
    """Return the types of what `served` gives; None if that is not known without data."""
    if type(recipe).served is Recipe.served:
        kinds = recipe.inputs if isinstance(recipe.inputs, Mapping) else recipe.features
        found = {name: kinds[name] for name in recipe.inputs if name in kinds}
        examples = len(next(iter(data.values()))) if data else None
        return {name: predicting.Answer(kind.dtype, (examples, *kind.shape)) for name, kind in found.items()}
    if data is None:
        return None
    with loading.blaming(path, InputError, "fails in served"):
        return {name: signatures.type_of(values) for name, values in predicting.served(recipe, data).items()}


def measured(
    recipe: Recipe, path: Path, dataset: Dataset, evaluation: Evaluation | None, *, split: str | None, batch_size: int
) -> set[str] | None:
    """Make the recipe's pictures once; without `evaluation`, also try its metrics on what validate will measure.

    Returns the names of these metrics, None if they were not tried. As with `answers`, do not train this recipe object.
    """
    names = None
    if evaluation is None and split:
        examples = dataset.examples(split)
        evaluation = Evaluation(recipe, dataset, split, batch_size=batch_size, key=tf.constant([0, 0], tf.int32))
        with loading.blaming(path, InputError, "does not trace in eval_step", features=dataset.features):
            traced = evaluation.trace()
        completeness.check_measured(traced, variables.find(recipe).optimizers, "eval_step")
        with loading.blaming(path, InputError, "fails in evaluate"):
            repeatability.prove_evaluate(recipe, evaluation, examples=examples)
            names = {*evaluation.names, *evaluation.on_host(examples)}
    if evaluation:
        with loading.blaming(path, InputError, "fails in pictures"):
            evaluation.pictures()
    return names


def recorded(folder: Path) -> dict[str, predicting.Answer] | None:
    """Return the `answers` of an earlier start; None if there is no whole record."""
    try:
        found = json_text.mapping(files.read_bytes(folder / RECORD))
        return {name: _recorded(entry["dtype"], entry["shape"]) for name, entry in found.items()}
    except (OSError, InputError, json_text.NotJson, KeyError, TypeError):
        return None


def _recorded(dtype: Any, shape: Any) -> predicting.Answer:
    if not all(size is None or type(size) is int for size in shape or ()):
        raise TypeError("shape")
    return predicting.Answer(str(dtype), None if shape is None else tuple(shape))


def record(folder: Path, found: Mapping[str, predicting.Answer]) -> None:
    """Keep the `answers` of this start."""
    files.write_json(folder / RECORD, {name: asdict(answer) for name, answer in found.items()})


def check(
    recipe: Recipe,
    settings: TrainSettings,
    evaluation: Evaluation | None,
    tried: Collection[str] | None,
    found: Mapping[str, predicting.Answer] | None,
    expect: Expect | None,
    *,
    kind: Feature | None,
    examples: int,
) -> None:
    """Raise `InputError` if `train.best` names no metric of a validation, or if `expect` raises it.

    tried: metrics that `evaluate` returned for a few examples; if they do not suffice, it is called with all examples.
    Without `evaluation`, the result of `measured`.
    found: the result of `answers`; without it `expect` is not called. kind: the target's.
    """

    def checked(measured: Collection[str] | None) -> None:
        if settings.best and measured is not None:
            settings.best.among(measured)
        if expect and found is not None:
            expect(Rehearsed(recipe.target, kind, found, measured))

    if evaluation is None:
        return checked(tried)
    names = {*evaluation.names, *(tried or ())}
    try:
        return checked(names)
    except InputError:
        if type(recipe).evaluate is Recipe.evaluate:
            raise
    return checked(names | evaluation.on_host(examples).keys())
