"""Check ahead, as far as possible, what happens after training, so that a late mistake does not waste a run."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tapeline.config.train import TrainSettings
from tapeline.parsing import json_text
from tapeline.recipe import Recipe, loading, predicting
from tapeline.recipe.contract import Columns
from tapeline.recipe.evaluation import Evaluation
from tapeline.runtime import files
from tapeline.runtime.errors import InputError

DEFAULT = "serving_default"
RECORD = "answers.json"
"""Kept with the checkpoints, so that a start that is known need not trace what will be exported again."""


@dataclass(frozen=True)
class Rehearsed:
    """The outputs and metrics that a recipe will produce."""

    target: str | None
    classes: Sequence[str] | None
    """The target's classes, if it has any."""
    answers: Mapping[str, str]
    """Output of the default signature → dtype."""
    measured: Collection[str] | None
    """The metrics of a validation; None for a dataset without a validation split."""


Expect = Callable[[Rehearsed], None]
"""Raises `InputError` for a mistake that a stage after training would find."""


def answers(recipe: Recipe, path: Path, data: Columns | None) -> dict[str, str]:
    """Trace what will be exported, and return the dtypes of its outputs. Raises `InputError` if it is invalid.

    data: of the split that validate will predict; an own `served` is called with them. Tracing may create variables and
    advance random generators: do not use the recipe object that will be trained.
    """
    name = type(recipe).__name__
    own = type(recipe).signatures is not Recipe.signatures
    if not own and not recipe.inputs:
        raise InputError(f"{name}.inputs is empty: name the features that predict takes, such as inputs = ('x',)")
    with loading.blaming(path, InputError, "does not trace in signatures" if own else "does not trace in predict"):
        signatures: Mapping[str, Any] = recipe.signatures()
        if DEFAULT not in signatures:
            raise InputError(f"{name}.signatures has {', '.join(signatures) or 'nothing'}: {DEFAULT} is missing")
        found = signatures[DEFAULT].get_concrete_function().structured_outputs
        given = _given(recipe, path, data)
        if given is not None and signatures[DEFAULT].input_signature:
            predicting.check_given(predicting.inputs(signatures[DEFAULT]), given)
    if not isinstance(found, Mapping) or not found:
        what = "a dict without outputs" if isinstance(found, Mapping) else "nothing" if found is None else "no dict"
        where = DEFAULT if own else "predict"
        raise InputError(f"{name}: {where} returns {what}: return a dict of outputs, such as {{'score': scores}}")
    return {output: spec.dtype.name for output, spec in found.items()}


def _given(recipe: Recipe, path: Path, data: Columns | None) -> Iterable[str] | None:
    """Return the names of what `served` gives; None if that is not known without data."""
    if type(recipe).served is Recipe.served:
        return recipe.inputs
    if data is None:
        return None
    with loading.blaming(path, InputError, "fails in served"):
        return predicting.served(recipe, data)


def recorded(folder: Path) -> dict[str, str] | None:
    """Return the `answers` of an earlier start; None if there is no whole record."""
    try:
        return {name: str(dtype) for name, dtype in json_text.mapping(files.read_bytes(folder / RECORD)).items()}
    except (OSError, InputError, json_text.NotJson):
        return None


def record(folder: Path, found: Mapping[str, str]) -> None:
    """Keep the `answers` of this start."""
    files.write_json(folder / RECORD, dict(found))


def check(
    recipe: Recipe,
    settings: TrainSettings,
    evaluation: Evaluation | None,
    tried: Collection[str],
    found: Mapping[str, str] | None,
    expect: Expect | None,
    *,
    classes: Sequence[str] | None,
    examples: int,
) -> None:
    """Raise `InputError` if `train.best` names no metric of a validation, or if `expect` raises it.

    tried: metrics that `evaluate` returned for a few examples; if they do not suffice, it is called with all examples.
    found: the result of `answers`; without it `expect` is not called. classes: the target's.
    """

    def checked(measured: Collection[str] | None) -> None:
        if settings.best and measured is not None:
            settings.best.among(measured)
        if expect and found is not None:
            expect(Rehearsed(recipe.target, classes, found, measured))

    if evaluation is None:
        return checked(None)
    names = {*evaluation.names, *tried}
    try:
        return checked(names)
    except InputError:
        if type(recipe).evaluate is Recipe.evaluate:
            raise
    return checked(names | evaluation.on_host(examples).keys())
