"""What comes after training, as far as it can be known before: a mistake there shall not cost the training."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tapeline.config.train import TrainSettings
from tapeline.recipe import Recipe, loading
from tapeline.recipe.evaluation import Evaluation
from tapeline.runtime.errors import InputError

DEFAULT = "serving_default"


@dataclass(frozen=True)
class Rehearsed:
    """What a recipe will answer and measure."""

    target: str | None
    classes: Sequence[str] | None
    """Those of the target, if it has any."""
    answers: Mapping[str, str]
    """Output of the default signature → dtype."""
    measured: Collection[str] | None
    """The metrics of a validation; None for a dataset without a validation split."""


Expect = Callable[[Rehearsed], None]
"""Raises `InputError` for a mistake that the stages after training would find."""


def answers(recipe: Recipe, path: Path) -> dict[str, str]:
    """Trace what will be exported, and return its outputs' dtypes. Raises `InputError` for a mistake in it.

    Tracing may make variables and advance random generators: do it with a recipe that is not the one to be trained.
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
    if not isinstance(found, Mapping) or not found:
        what = "a dict without outputs" if isinstance(found, Mapping) else "nothing" if found is None else "no dict"
        where = DEFAULT if own else "predict"
        raise InputError(f"{name}: {where} returns {what}: return a dict of outputs, such as {{'score': scores}}")
    return {output: spec.dtype.name for output, spec in found.items()}


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
    """Raise `InputError` where `train.best` names no metric of a validation, and for what `expect` refuses.

    tried: what `evaluate` measured on a few examples; where that is not enough, it is called with all of them.
    found: `answers`; without them nothing is expected. classes: the target's.
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
