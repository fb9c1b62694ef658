"""What `predict` returns is compared with the target's shape: as traced, and as found."""

from contextlib import nullcontext

import numpy as np
import pytest

from tapeline.config.validate import ValidateSettings
from tapeline.dataset.columns import Feature
from tapeline.runtime.errors import InputError
from tapeline.validate import expected

LABEL = Feature((), "int64", ("ant", "bee", "cat"))
PROBABILITIES = "predict returns `probabilities` of shape "


def checked(kind, *shapes, examples=None):
    from tapeline.recipe.predicting import Answer

    types = (
        zip(("class", "probabilities"), ("int64", "float32"), shapes, strict=True)
        if kind.classes
        else [("y", "float32", *shapes)]
    )
    answers = {name: Answer(dtype, shape) for name, dtype, shape in types}
    expected.check_answers("label" if kind.classes else "y", kind, answers, examples)


@pytest.mark.parametrize(
    ("chosen", "probabilities", "said"),
    [
        ((None,), (None, 3), None),
        (None, None, None),
        ((None,), (None, None), None),
        ((7,), (7, 3), None),
        ((None, 1), (None, 3), "predict returns `class` of shape (examples, 1): it must be (examples), the class's"),
        ((), (None, 3), "predict returns `class` of shape (): it must be (examples)"),
        ((None,), (None, 1), PROBABILITIES + "(examples, 1): it must be (examples, 3), one for each of the classes"),
        ((None,), (None,), PROBABILITIES + "(examples): it must be (examples, 3)"),
        ((None,), (None, 3, 1), PROBABILITIES + "(examples, 3, 1): it must be (examples, 3)"),
    ],
)
def test_the_shapes_of_a_classifiers_answers(tf, chosen, probabilities, said):
    with pytest.raises(InputError) if said else nullcontext() as raised:
        checked(LABEL, chosen, probabilities)
    assert not said or str(raised.value).startswith(said)


@pytest.mark.parametrize(
    ("shape", "found", "fits"),
    [
        ((), (None,), True),
        ((), (None, 1), True),
        ((1,), (None,), True),
        ((1,), (None, 1, 1), True),
        ((), (None, None), True),
        ((2, 3), (None, 2, 1, 3), True),
        ((2, 3), None, True),
        ((), (), False),
        ((), (None, 3), False),
        ((3,), (None, 6), False),
        ((3,), (None,), False),
        ((2, 3), (None, 3, 2), False),
        ((2, 3), (None, 6), False),
    ],
)
def test_the_shape_of_a_number_is_the_targets_up_to_axes_of_one(tf, shape, found, fits):
    kind = Feature(shape, "float32")
    said = r"^predict returns 'y' of shape \(.*\): it must be \(examples.*, as the target is$"
    with nullcontext() if fits else pytest.raises(InputError, match=said):
        checked(kind, found)


def test_answers_for_other_examples_than_those_of_the_split_are_refused(tf):
    checked(LABEL, (7,), (7, 3), examples=7)
    with pytest.raises(InputError, match=r"^predict returns `class` of shape \(6\): it must be \(7\)"):
        checked(LABEL, (6,), (7, 3), examples=7)
    with pytest.raises(InputError, match=r"^predict returns 'y' of shape \(6, 1\): it must be \(7\)"):
        checked(Feature((), "float32"), (6, 1), examples=7)


@pytest.mark.parametrize("wrong", [-1, 3])
def test_the_number_of_no_class_is_refused(wrong):
    expected.check_classes(np.array([0, 2, 1]), LABEL.classes)
    with pytest.raises(InputError) as raised:
        expected.check_classes(np.array([0, wrong, 1, wrong]), LABEL.classes)
    assert str(raised.value) == (
        f"predict returns the class {wrong} for 2 of 4 examples: there are 3 classes, numbered from 0"
    )


def test_logits_are_no_probabilities():
    expected.check_probabilities(np.array([[-0.001, 1.004], [np.nan, np.inf]]))
    with pytest.raises(InputError) as raised:
        expected.check_probabilities(np.array([[0.5, 0.5], [-3.25, -2.0], [0.0, -1.0]]))
    assert str(raised.value) == (
        "predict returns `probabilities` such as -3.25, for 2 of 3 examples: they must be in 0 to 1, such as "
        "tf.nn.softmax(logits)"
    )


@pytest.mark.parametrize(
    ("name", "of_classes", "of_numbers"),
    [
        ("classes", True, False),
        ("confusion", True, False),
        ("calibration_error", True, False),
        ("macro_f1", True, False),
        ("r2", False, True),
        ("mean_absolute_error", False, True),
        ("loss", False, False),
    ],
)
def test_a_metric_may_not_have_the_name_of_one_that_validate_measures(name, of_classes, of_numbers):
    """Else train.best would follow one of the two, and the thresholds the other."""
    expected.check_thresholds(ValidateSettings(), None, None, [name], 9)
    said = f"^a metric of the recipe is called '{name}': metrics.json has validate's own {name}"
    for classes, refused in ((LABEL.classes, of_classes), (None, of_numbers)):
        with pytest.raises(InputError, match=said) if refused else nullcontext():
            expected.check_thresholds(ValidateSettings(), "y", classes, ["accuracy", name], 9)


def test_one_example_has_no_r2_to_judge():
    settings = ValidateSettings.model_validate_json('{"thresholds": {"r2": {"min": 0.5}}}')
    expected.check_thresholds(settings, "y", None, ["loss"], 2)
    with pytest.raises(InputError, match="names 'r2', which is not measured with one example: choose from loss, mean_"):
        expected.check_thresholds(settings, "y", None, ["loss"], 1)
