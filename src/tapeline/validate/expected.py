"""Check a recipe's outputs and metrics: before training as traced, and after training as measured."""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tapeline.config.validate import ValidateSettings
from tapeline.dataset.columns import Feature
from tapeline.runtime.errors import InputError

if TYPE_CHECKING:
    from tapeline.recipe.predicting import Answer

OF_CLASSES = ("calibration_error", "macro_f1", "macro_precision", "macro_recall")
OF_NUMBERS = ("mean_absolute_error", "r2", "root_mean_squared_error")
"""The metrics measured besides the recipe's own, by kind of target."""
ROUNDING = 0.01
"""By how much a probability may be outside 0 to 1: bfloat16 rounds by up to 0.004."""


def check_answers(
    target: str | None, kind: Feature | None, answers: Mapping[str, "Answer"], examples: int | None = None
) -> None:
    """Raise `InputError` if the outputs of `predict` cannot be compared with the target.

    kind: the target's type. examples: how many the outputs are for, where that is known.
    """
    if target is None or kind is None:
        return
    if kind.classes:
        _check_classifier(target, kind.classes, answers, examples)
    elif target in answers:
        _check_numbers(target, answers[target], (examples, *kind.shape))
    else:
        raise InputError(
            f"predict of a recipe whose target is {target!r} must return it, but returns {', '.join(answers)}"
        )


def _check_classifier(
    target: str, classes: Sequence[str], answers: Mapping[str, "Answer"], examples: int | None
) -> None:
    """Raise `InputError` unless there are a class and its probabilities for each example."""
    if missing := {"class", "probabilities"} - answers.keys():
        raise InputError(f"predict of a recipe whose target is a class must return {', '.join(sorted(missing))}")
    if not answers["class"].dtype.startswith(("int", "uint")):
        raise InputError(
            f"predict returns `class` as {answers['class'].dtype}: it must be the class's number, such as "
            f"tf.argmax(logits, -1); `tapeline predict` adds the class's name"
        )
    if not _fits(found := answers["class"].shape, (examples,)):
        raise InputError(
            f"predict returns `class` of shape {_shown(found)}: it must be {_shown((examples,))}, the class's number "
            "for each example, such as tf.argmax(logits, -1)"
        )
    wanted = (examples, len(classes))
    if not _fits(found := answers["probabilities"].shape, wanted):
        raise InputError(
            f"predict returns `probabilities` of shape {_shown(found)}: it must be {_shown(wanted)}, one for each of "
            f"the classes of {target!r}, such as tf.nn.softmax(logits), or tf.concat([1 - p, p], -1) of a sigmoid's p"
        )


def _check_numbers(target: str, answer: "Answer", wanted: Sequence[int | None]) -> None:
    """Raise `InputError` unless an answer has the target's shape, up to axes of 1."""
    found = answer.shape
    if found is None or None in found[1:]:
        return
    inner, of_target = ([size for size in shape[1:] if size != 1] for shape in (found, wanted))
    if inner != of_target or not _fits(found[:1], wanted[:1]):
        raise InputError(
            f"predict returns {target!r} of shape {_shown(found)}: it must be {_shown(wanted)}, as the target is"
        )


def check_classes(chosen: NDArray[Any], classes: Sequence[str]) -> None:
    """Raise `InputError` for the number of a class that there is not, which would be counted as another one."""
    wrong = (chosen < 0) | (chosen >= len(classes))
    if wrong.any():
        raise InputError(
            f"predict returns the class {chosen[np.argmax(wrong)]} for {int(wrong.sum())} of {len(chosen)} examples: "
            f"there are {len(classes)} classes, numbered from 0"
        )


def check_probabilities(probabilities: NDArray[Any]) -> None:
    """Raise `InputError` for values that are no probabilities, such as logits: a calibration error would mean nothing.

    Values that are not finite are left to `finite.faults`.
    """
    wrong = (probabilities < -ROUNDING) | (probabilities > 1 + ROUNDING)
    wrong &= np.isfinite(probabilities)
    if wrong.any():
        count = int(wrong.any(axis=1).sum())
        raise InputError(
            f"predict returns `probabilities` such as {probabilities[wrong][0]:g}, for {count} of {len(probabilities)} "
            f"examples: they must be in 0 to 1, such as tf.nn.softmax(logits)"
        )


def _fits(found: Sequence[int | None] | None, wanted: Sequence[int | None]) -> bool:
    """Return whether a shape may be the one that is wanted; None is an axis of any length."""
    if found is None:
        return True
    return len(found) == len(wanted) and all(
        one is None or other is None or one == other for one, other in zip(found, wanted, strict=True)
    )


def _shown(shape: Sequence[int | None] | None) -> str:
    """Return a shape as messages have it."""
    sizes = ["any" if size is None else str(size) for size in shape or ()]
    return f"({', '.join(['examples', *sizes[1:]] if sizes[:1] == ['any'] else sizes)})"


def check_thresholds(
    settings: ValidateSettings,
    target: str | None,
    classes: Sequence[str] | None,
    measured: Collection[str],
    examples: int,
) -> None:
    """Raise `InputError` for a threshold on a metric that will not exist, and for a metric with a taken name.

    measured: the recipe's own metrics. examples: how many the split has; one alone has no r2.
    """
    check_names(target, classes, measured)
    further = _further(target, classes)
    single = {"r2"} & set(further) if examples == 1 else set()
    known = sorted({*measured, *further} - single)
    for name in settings.thresholds:
        if name not in known:
            raise InputError(
                f"validate.thresholds names {name!r}, which is not measured{' with one example' * (name in single)}: "
                f"choose from {', '.join(known)}"
            )


def check_names(target: str | None, classes: Sequence[str] | None, measured: Collection[str]) -> None:
    """Raise `InputError` for a metric of the recipe with the name of one that validate measures, or of a table."""
    own = {*_further(target, classes), *(("classes", "confusion") if classes else ())}
    if taken := sorted(own & set(measured)):
        raise InputError(
            f"a metric of the recipe is called {taken[0]!r}: metrics.json has validate's own {taken[0]} under that "
            "name; give it another"
        )


def _further(target: str | None, classes: Sequence[str] | None) -> Sequence[str]:
    """Return the metrics measured besides the recipe's own."""
    return () if target is None else OF_CLASSES if classes else OF_NUMBERS
