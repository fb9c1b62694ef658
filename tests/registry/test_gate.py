"""The gate: every number of its checks, and the sentences in which it gives them."""

from dataclasses import replace

import numpy as np
import pytest

from tapeline.config.registry import GateSettings, PairedSettings, SliceSettings
from tapeline.config.validate import Bound
from tapeline.registry.gate import decision
from tapeline.registry.gate.decision import Contender
from tapeline.registry.gate.measures import Target
from tapeline.registry.sentences import sentence
from tapeline.runtime.errors import InputError

LABELS = np.repeat(np.arange(3), 100)
TARGET = Target("label", LABELS, ("a", "b", "c"))


def contender(name, *, wrong=0, at=0, **recorded):
    """Return a classifier that has `wrong` examples wrong from example `at` on."""
    found = LABELS.copy()
    found[at : at + wrong] = (found[at : at + wrong] + 1) % 3
    return Contender(name, recorded, {"class": found})


def checks(settings, challenger, champion=None, target=TARGET):
    return decision.judge(settings, challenger, champion, target, {"label": LABELS})


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
    assert sentence(check) == "accuracy is 0.896667, must be at least 0.9"


def test_a_change_against_the_champion():
    settings = GateSettings(change={"accuracy": Bound(min=-0.01), "size": Bound(max=5)}, paired=None)
    change, size = checks(settings, contender("v2", wrong=6, size=7.0), contender("v1", wrong=2, size=1.0))
    assert not change["holds"] and change["value"] == pytest.approx(-4 / 300)
    assert sentence(change) == "change of accuracy is -0.0133333 (0.993333 → 0.98), must be at least -0.01"
    assert not size["holds"] and sentence(size) == "change of size is +6 (1 → 7), must be at most 5"


def test_a_change_between_records_on_two_test_sets_is_unknown():
    settings = GateSettings(
        change={"accuracy": Bound(min=-0.1), "loss": Bound(max=1), "macro_f1": Bound(max=1)}, paired=None
    )
    old, new = (Contender(n, {"loss": 1.0}, {"class": LABELS}, f"{n} test") for n in ("v1", "v2"))
    measured, recorded, also = decision.judge(settings, new, old, TARGET, {})
    assert (measured["metric"], measured["holds"]) == ("accuracy", True)
    assert (also["metric"], also["holds"]) == ("macro_f1", True)
    assert (recorded["metric"], recorded["holds"]) == ("loss", False)
    assert sentence(recorded) == (
        "change of loss is unknown: it was recorded on other test data than the champion's, and is not measured again"
    )


def test_a_metric_that_only_one_can_be_measured_by_is_unknown_on_other_data():
    settings = GateSettings(change={"calibration_error": Bound(max=1)}, paired=None)
    sure = {"class": LABELS, "probabilities": np.eye(3)[LABELS]}
    old = Contender("v1", {"calibration_error": 0.5}, {"class": LABELS}, "v1 test")
    new = Contender("v2", {}, sure, "v2 test")
    (check,) = decision.judge(settings, new, old, TARGET, {})
    assert not check["holds"] and "is unknown" in sentence(check)
    (check,) = decision.judge(settings, new, Contender("v1", {}, sure, "v1 test"), TARGET, {})
    assert check["holds"] and check["value"] == 0
    for one, other in ((new, Contender("v1", {}, {"class": LABELS}, "v1 test")), (contender("v2"), old)):
        with pytest.raises(InputError, match="requires 'calibration_error', which was not measured"):
            decision.judge(settings, one, other, TARGET, {})


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
    assert sentence(found[3]) == (
        "change of accuracy of label=b (100 examples) is -0.08 (1 → 0.92), must be at least -0.05"
    )


def test_a_slice_of_few_examples_is_shown_and_not_judged():
    slices = (SliceSettings(feature="label", metric="accuracy", bound=Bound(min=1.1), at_least=101),)
    found = checks(GateSettings(slices=slices), contender("v1"))
    assert all(check["holds"] for check in found)
    assert "too few to judge" in sentence(found[0])


def test_a_class_without_an_example_is_shown_and_not_judged():
    slices = (SliceSettings(feature="label", metric="accuracy", bound=Bound(min=0.5)),)
    target = replace(TARGET, classes=(*TARGET.classes, "d"))
    found = decision.judge(GateSettings(slices=slices), contender("v1"), None, target, {"label": LABELS})
    assert [(c["slice"], c.get("judged"), c["holds"]) for c in found] == [
        ("label=d", False, True),
        *[(f"label={name}", True, True) for name in "abc"],
    ]
    assert sentence(found[0]) == "accuracy of label=d is not judged: no test example is of it"


def test_one_example_alone_has_no_r2_and_is_not_judged():
    actual = np.arange(5.0)
    slices = (SliceSettings(feature="region", metric="r2", bound=Bound(min=0.9), change=Bound(min=0), at_least=1),)
    one, two = (Contender(name, {}, {"y": actual + wrong}) for name, wrong in (("v1", 0.2), ("v2", 0.1)))
    region = np.array([3, 3, 3, 3, 7])
    found = decision.judge(GateSettings(slices=slices, paired=None), two, one, Target("y", actual), {"region": region})
    assert [(c["kind"], c["slice"], c["judged"], c["holds"]) for c in found] == [
        ("slice", "region=3", True, True),
        ("slice change", "region=3", True, True),
        ("slice", "region=7", False, True),
    ]
    assert sentence(found[2]) == "r2 of region=7 is not judged: one test example alone has none"


def test_a_slice_of_just_enough_examples_is_judged():
    for at_least, holds in ((100, False), (101, True)):
        asked = {"feature": "label", "metric": "accuracy", "at_least": at_least}
        slices = (SliceSettings(**asked, change=Bound(min=0)), SliceSettings(**asked, bound=Bound(min=1.1)))
        found = checks(GateSettings(slices=slices, paired=None), contender("v2", wrong=1), contender("v1"))
        assert [check["kind"] for check in found] == ["slice change"] * 3 + ["slice"] * 3
        assert [check["judged"] for check in found] == [not holds] * 6
        assert [check["holds"] for check in found] == [holds, True, True, holds, holds, holds]


def test_a_change_in_a_slice_needs_a_champion():
    slices = (SliceSettings(feature="label", metric="accuracy", change=Bound(min=0)),)
    assert checks(GateSettings(slices=slices), contender("v1")) == []


def test_a_slice_is_of_one_value_an_example():
    slices = (SliceSettings(feature="label", metric="accuracy", bound=Bound(min=0)),)
    with pytest.raises(InputError, match=r"label has shape \(300, 1\) and 3 values; at most 100"):
        decision.judge(GateSettings(slices=slices), contender("v1"), None, TARGET, {"label": LABELS[:, None]})


def test_the_paired_test_in_words():
    settings = GateSettings(paired=PairedSettings(margin=0.02))
    (check,) = checks(settings, contender("v2", wrong=20), contender("v1", wrong=2))
    assert not check["holds"]
    assert sentence(check) == (
        "not worse by more than 0.02: accuracy -0.0600, by the test at least -0.0867; "
        "0 examples right only now, 18 only before (at 95% confidence, 300 examples)"
    )


def test_a_regressor_by_its_errors():
    actual = np.linspace(0, 1, 400)
    target = Target("y", actual)
    settings = GateSettings(bounds={"mean_absolute_error": Bound(max=0.2)})
    one, two = (Contender(n, {}, {"y": actual + e}) for n, e in (("v1", 0.1), ("v2", 0.15)))
    bound, test = decision.judge(settings, two, one, target, {})
    assert bound["holds"] and bound["value"] == pytest.approx(0.15)
    assert not test["holds"] and test["difference"] == pytest.approx(0.05)


def test_a_model_that_predicts_no_feature_is_judged_by_its_record():
    settings = GateSettings(bounds={"frechet": Bound(max=5)}, change={"frechet": Bound(max=0.5)}, paired=None)
    bound, change = decision.judge(
        settings, Contender("v2", {"frechet": 4.0}), Contender("v1", {"frechet": 3.0}), None, {}
    )
    assert (bound["holds"], change["holds"]) == (True, False)


def test_a_paired_test_that_cannot_be_made_is_a_no():
    (check,) = decision.judge(GateSettings(), Contender("v2", {"loss": 99.0}), Contender("v1", {"loss": 0.1}), None, {})
    assert not check["holds"]
    assert sentence(check) == (
        "no paired test is possible, since no feature is known to be predicted from the test data: set `gate.target`, "
        "or `paired: null`, as for a model whose inputs are not features"
    )
    assert decision.judge(GateSettings(), Contender("v1", {"loss": 99.0}), None, None, {}) == []


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            GateSettings(bounds={"acuracy": Bound(min=0)}),
            "the gate requires 'acuracy', which was not measured: choose from accuracy,",
        ),
        (
            GateSettings(slices=(SliceSettings(feature="label", metric="loss", bound=Bound(max=1)),)),
            "the gate requires 'loss', which was not measured",
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


def test_as_many_slices_as_a_screen_holds_and_no_more():
    values = np.arange(101)
    slices = (SliceSettings(feature="group", metric="accuracy", bound=Bound(min=0), at_least=1),)

    def judged(count):
        part = Target("label", np.zeros(count, int), ("a", "b"))
        return decision.judge(
            GateSettings(slices=slices, paired=None),
            Contender("v1", {}, {"class": np.zeros(count, int)}),
            None,
            part,
            {"group": values[:count]},
        )

    found = judged(100)
    assert len(found) == 100 and found[7]["slice"] == "group=7" and found[7]["examples"] == 1
    with pytest.raises(InputError, match=r"group has shape \(101,\) and 101 values; at most 100"):
        judged(101)


def test_slices_need_a_prediction():
    slices = (SliceSettings(feature="label", metric="accuracy", bound=Bound(min=0)),)
    with pytest.raises(InputError, match="gate.slices requires accuracy by label, but no feature is predicted"):
        decision.judge(GateSettings(slices=slices), contender("v1"), None, None, {"label": LABELS})


@pytest.mark.parametrize(
    ("bound", "value", "holds", "asked"),
    [
        (Bound(min=0.5), 0.5, True, "at least 0.5"),
        (Bound(min=0.5), 0.49, False, "at least 0.5"),
        (Bound(max=0.5), 0.5, True, "at most 0.5"),
        (Bound(max=0.5), 0.51, False, "at most 0.5"),
        (Bound(min=0.2, max=0.5), 0.3, True, "at least 0.2 and at most 0.5"),
        (Bound(min=0.2, max=0.5), 0.1, False, "at least 0.2 and at most 0.5"),
        (Bound(min=0.2, max=0.5), 0.6, False, "at least 0.2 and at most 0.5"),
    ],
)
def test_a_bound_includes_its_ends(bound, value, holds, asked):
    (check,) = checks(GateSettings(bounds={"loss": bound}), contender("v1", loss=value))
    assert check["holds"] is holds
    assert sentence(check) == f"loss is {value}, must be {asked}"


def test_paired_tests_in_all_their_words():
    def said(settings, new, old, target=TARGET):
        (check,) = decision.judge(GateSettings(paired=settings), new, old, target, {})
        return check["holds"], sentence(check)

    better = PairedSettings(asks="better")
    assert said(better, contender("v2"), contender("v1", wrong=10)) == (
        True,
        "better: 10 examples right only now, 0 only before, p 0.000977 (at 95% confidence, 300 examples)",
    )
    assert said(PairedSettings(margin=0.005), contender("v2", wrong=1), contender("v1", wrong=1)) == (
        False,
        "not worse by more than 0.005: accuracy +0.0000, by the test at least -0.0089; 0 examples right only now, "
        "0 only before (at 95% confidence, 300 examples); 539 examples are needed to show it, or a larger "
        "`paired.margin`",
    )
    actual = np.linspace(0, 1, 400)
    old, new = (Contender(n, {}, {"y": actual + e}) for n, e in (("v1", 0.1), ("v2", 0.05)))
    assert said(better, new, old, Target("y", actual)) == (
        True,
        "better: mean absolute error -0.05, by the test at most -0.05 (at 95% confidence, 400 examples)",
    )
    assert said(PairedSettings(margin=0.1), new, old, Target("y", actual)) == (
        True,
        "not worse by more than 0.01: mean absolute error -0.05, by the test at most -0.05 (at 95% confidence, 400 "
        "examples)",
    )


def test_a_column_of_one_number_is_compared_with_its_own_example():
    actual = np.linspace(0, 9, 100, dtype=np.float32)
    target = Target("price", actual)
    good, constant = (Contender(n, {}, {"price": y[:, None]}) for n, y in (("v1", actual), ("v2", 0 * actual + 4.5)))
    (check,) = decision.judge(GateSettings(), constant, good, target, {})
    assert not check["holds"] and check["difference"] == pytest.approx(2.27, abs=0.01)
    (check,) = decision.judge(GateSettings(), good, constant, target, {})
    assert check["holds"]


def test_answers_of_another_shape_than_the_target_are_refused():
    with pytest.raises(InputError, match=r"its price has the shape \(2,\), the target \(\)"):
        Target("price", np.zeros(3)).of_target({"price": np.zeros((3, 2))})
    with pytest.raises(InputError, match="its class has the shape"):
        TARGET.metrics({"class": LABELS[:, None] == np.arange(3)})
    assert TARGET.metrics({"class": LABELS[:, None]})["accuracy"] == 1.0
