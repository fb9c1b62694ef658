"""Check a recipe's outputs and metrics: before training as traced, and after training as measured."""

from collections.abc import Collection, Mapping, Sequence

from tapeline.config.validate import ValidateSettings
from tapeline.runtime.errors import InputError

OF_CLASSES = ("calibration_error", "macro_f1", "macro_precision", "macro_recall")
OF_NUMBERS = ("mean_absolute_error", "r2", "root_mean_squared_error")
"""The metrics measured besides the recipe's own, by kind of target."""


def check_answers(target: str | None, classes: Sequence[str] | None, answers: Mapping[str, str]) -> None:
    """Raise `InputError` if the outputs of `predict` cannot be compared with the target.

    classes: the target's, if it has any. answers: output → dtype, by its NumPy or TensorFlow name.
    """
    if target is None:
        return
    if not classes:
        if target not in answers:
            raise InputError(
                f"predict of a recipe whose target is {target!r} must return it; it has {', '.join(answers)}"
            )
        return
    if missing := {"class", "probabilities"} - answers.keys():
        raise InputError(f"predict of a recipe whose target is a class must return {', '.join(sorted(missing))}")
    if not answers["class"].startswith(("int", "uint")):
        raise InputError(
            f"predict returns `class` as {answers['class']}: it must be the class's number, such as "
            f"tf.argmax(logits, -1); `tapeline predict` adds the class's name"
        )


def check_thresholds(
    settings: ValidateSettings, target: str | None, classes: Sequence[str] | None, measured: Collection[str]
) -> None:
    """Raise `InputError` for a threshold on a metric that will not exist. measured: the recipe's own metrics."""
    further = () if target is None else OF_CLASSES if classes else OF_NUMBERS
    known = sorted({*measured, *further})
    for name in settings.thresholds:
        if name not in known:
            raise InputError(f"validate.thresholds names {name!r}, which is not measured; there are {', '.join(known)}")
