"""A classifier's figures against what one counts by hand."""

import numpy as np
import pytest

from tapeline.validate import classification

LABELS = np.array([0, 0, 0, 1, 1, 2])
CHOSEN = np.array([0, 0, 1, 1, 1, 1])
CLASSES = ("cat", "dog", "eel")


def test_confusion():
    assert classification.confusion(LABELS, CHOSEN, 3).tolist() == [[2, 1, 0], [0, 2, 0], [0, 1, 0]]


def test_per_class():
    figures = classification.per_class(LABELS, CHOSEN, CLASSES)
    assert figures["cat"] == pytest.approx({"precision": 1.0, "recall": 2 / 3, "f1": 0.8, "support": 3})
    assert figures["dog"] == pytest.approx({"precision": 0.5, "recall": 1.0, "f1": 2 / 3, "support": 2})
    assert figures["eel"] == pytest.approx({"precision": 0.0, "recall": 0.0, "f1": 0.0, "support": 1})
    means = {"macro_precision": 0.5, "macro_recall": 5 / 9, "macro_f1": 22 / 45}
    assert classification.macro(figures) == pytest.approx(means)


def test_calibration_of_a_perfectly_calibrated_and_of_an_overconfident_model():
    labels = np.array([0] * 8 + [1] * 2)
    calibrated = np.tile([0.8, 0.2], (10, 1)).astype(np.float32)
    error, diagram = classification.calibration(labels, calibrated, 10)
    assert error == pytest.approx(0.0, abs=1e-6)
    assert len(diagram) == 1
    sure = np.tile([1.0, 0.0], (10, 1)).astype(np.float32)
    assert classification.calibration(labels, sure, 10)[0] == pytest.approx(0.2)


def test_a_class_name_runs_nothing_in_the_page_of_plots():
    names = ["</script><script>x()</script>", "<!--<script>", "a < b"]
    text = classification.confusion_csv(LABELS % 3, LABELS % 3, names)
    assert "</" not in text and "<!--" not in text
    assert set(text.splitlines()[1:]) == {
        f"{n},{n}" for n in (r"<\/script><script>x()<\/script>", r"<\!--<script>", "a < b")
    }


def test_plots_are_tables_that_dvc_reads():
    text = classification.confusion_csv(LABELS, CHOSEN, CLASSES)
    assert text.splitlines()[:2] == ["actual,predicted", "cat,cat"]
    assert len(text.splitlines()) == 7
