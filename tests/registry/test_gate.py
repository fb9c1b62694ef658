"""The gate: every number of its checks, and the sentences in which it gives them."""

import numpy as np
import pytest

from tapeline.errors import InputError
from tapeline.registry import gate
from tapeline.registry.gate import Contender
from tapeline.registry.measures import Target
from tapeline.registry_settings import GateSettings, PairedSettings, SliceSettings
from tapeline.validate.settings import Bound

LABELS = np.repeat(np.arange(3), 100)
TARGET = Target("label", LABELS, ("a", "b", "c"))


def contender(name, *, wrong=0, at=0, **recorded):
    """Return a classifier that has `wrong` examples wrong from example `at` on."""
    found = LABELS.copy()
    found[at : at + wrong] = (found[at : at + wrong] + 1) % 3
    return Contender(name, recorded, {"class": found})


def checks(settings, challenger, champion=None, target=TARGET):
    return gate.judge(settings, challenger, champion, target, {"label": LABELS})


def test_without_a_champion_only_the_absolute_bounds():
    settings = GateSettings(bounds={"accuracy": Bound(min=0.9)}, change={"accuracy": Bound(min=0)})
    (check,) = checks(settings, contender("v1", wrong=30))
    assert check == {
        "kind": "bound",
        "metric": "accuracy",
        "value": 0.9,
        "min": 0.9,
        "max": None,
        "judged": True,
        "holds": True,
    }
    (check,) = checks(settings, contender("v1", wrong=31))
    assert not check["holds"]
    assert gate.sentence(check) == "accuracy is 0.896667, asked at least 0.9"


def test_a_change_against_the_champion():
    settings = GateSettings(change={"accuracy": Bound(min=-0.01), "size": Bound(max=5)}, paired=None)
    change, size = checks(settings, contender("v2", wrong=6, size=7.0), contender("v1", wrong=2, size=1.0))
    assert not change["holds"] and change["value"] == pytest.approx(-4 / 300)
    assert gate.sentence(change) == "change of accuracy is -0.0133333 (0.993333 → 0.98), asked at least -0.01"
    assert not size["holds"] and gate.sentence(size) == "change of size is +6 (1 → 7), asked at most 5"


def test_a_change_between_records_on_two_test_sets_is_unknown():
    settings = GateSettings(change={"accuracy": Bound(min=-0.1), "loss": Bound(max=1)}, paired=None)
    old, new = (Contender(n, {"loss": 1.0}, {"class": LABELS}, f"{n} test") for n in ("v1", "v2"))
    measured, recorded = gate.judge(settings, new, old, TARGET, {})
    assert (measured["metric"], measured["holds"]) == ("accuracy", True)
    assert (recorded["metric"], recorded["holds"]) == ("loss", False)
    assert gate.sentence(recorded) == (
        "change of loss is unknown: it was recorded on other test data than the champion's, and is not measured anew"
    )


def test_metrics_are_those_measured_now_and_not_those_recorded_then():
    (check,) = checks(
        GateSettings(bounds={"accuracy": Bound(min=0.5)}, paired=None), contender("v2", wrong=3, accuracy=0.1)
    )
    assert check["value"] == 0.99


def test_a_class_that_became_worse():
    slices = (SliceSettings(feature="label", metric="accuracy", bound=Bound(min=0.9), change=Bound(min=-0.05)),)
    found = checks(GateSettings(slices=slices, paired=None), contender("v2", wrong=8, at=100), contender("v1"))
    assert [(c["kind"], c["slice"], c["holds"]) for c in found] == [
        ("slice", "label=a", True),
        ("slice change", "label=a", True),
        ("slice", "label=b", True),
        ("slice change", "label=b", False),
        ("slice", "label=c", True),
        ("slice change", "label=c", True),
    ]
    assert gate.sentence(found[3]) == (
        "change of accuracy of label=b (100 examples) is -0.08 (1 → 0.92), asked at least -0.05"
    )


def test_a_slice_of_few_examples_is_shown_and_not_judged():
    slices = (SliceSettings(feature="label", metric="accuracy", bound=Bound(min=1.1), at_least=101),)
    found = checks(GateSettings(slices=slices), contender("v1"))
    assert all(check["holds"] for check in found)
    assert "too few to judge" in gate.sentence(found[0])


def test_the_paired_test_in_words():
    settings = GateSettings(paired=PairedSettings(margin=0.02))
    (check,) = checks(settings, contender("v2", wrong=20), contender("v1", wrong=2))
    assert not check["holds"]
    assert gate.sentence(check) == (
        "not worse by more than 0.02: accuracy -0.0600, by the test at least -0.0867; "
        "0 examples right only now, 18 only before (at 95% confidence, 300 examples)"
    )


def test_a_regressor_by_its_errors():
    actual = np.linspace(0, 1, 400)
    target = Target("y", actual)
    settings = GateSettings(bounds={"mean_absolute_error": Bound(max=0.2)})
    one, two = (Contender(n, {}, {"y": actual + e}) for n, e in (("v1", 0.1), ("v2", 0.15)))
    bound, test = gate.judge(settings, two, one, target, {})
    assert bound["holds"] and bound["value"] == pytest.approx(0.15)
    assert not test["holds"] and test["difference"] == pytest.approx(0.05)


def test_a_model_that_foretells_no_feature_is_judged_by_its_record():
    settings = GateSettings(bounds={"frechet": Bound(max=5)}, change={"frechet": Bound(max=0.5)}, paired=None)
    bound, change = gate.judge(settings, Contender("v2", {"frechet": 4.0}), Contender("v1", {"frechet": 3.0}), None, {})
    assert (bound["holds"], change["holds"]) == (True, False)


def test_a_paired_test_that_cannot_be_made_is_a_no():
    (check,) = gate.judge(GateSettings(), Contender("v2", {"loss": 99.0}), Contender("v1", {"loss": 0.1}), None, {})
    assert not check["holds"]
    assert gate.sentence(check) == (
        "no paired test possible, since no feature is foretold: name `gate.target`, or set `paired: null`"
    )
    assert gate.judge(GateSettings(), Contender("v1", {"loss": 99.0}), None, None, {}) == []


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            GateSettings(bounds={"acuracy": Bound(min=0)}),
            "the gate asks for 'acuracy', which was not measured; there are accuracy,",
        ),
        (
            GateSettings(slices=(SliceSettings(feature="label", metric="loss", bound=Bound(max=1)),)),
            "the gate asks for 'loss', which was not measured",
        ),
    ],
)
def test_what_cannot_be_measured(settings, said):
    with pytest.raises(InputError, match=said):
        checks(settings, contender("v1"))


def test_not_a_number_misses_every_bound():
    for bound in (Bound(min=-1e9), Bound(max=1e9)):
        (check,) = checks(GateSettings(bounds={"loss": bound}), contender("v1", loss=float("nan")))
        assert not check["holds"]
