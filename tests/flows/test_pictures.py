"""The report's pictures: drawn from the stages' files, small, and right."""

import base64
import re
import xml.etree.ElementTree as ElementTree

import pytest

from flows.reports.pictures import MOST_POINTS, confusion_matrix, learning_curve

SVG = "{http://www.w3.org/2000/svg}"


def drawn(address):
    kind, _, content = address.partition(",")
    assert kind == "data:image/svg+xml;base64"
    return ElementTree.fromstring(base64.b64decode(content))


def test_a_curve_of_both_splits(tmp_path):
    path = tmp_path / "history.csv"
    path.write_text("step,epoch,loss,val_loss\n10,1,4.0,\n20,2,2.0,3.0\n30,3,0.0,1.0\n")
    [(title, address)] = learning_curve(path)
    assert title == "loss over steps"
    train, val = drawn(address).iter(f"{SVG}polyline")
    points = [[float(n) for n in pair.split(",")] for pair in train.attrib["points"].split()]
    assert [x for x, _ in points] == sorted(x for x, _ in points)
    assert [y for _, y in points] == sorted(y for _, y in points), "a falling loss falls"
    assert len(val.attrib["points"].split()) == 2


def test_a_long_history_stays_small(tmp_path):
    path = tmp_path / "history.csv"
    path.write_text("step,epoch,loss\n" + "".join(f"{n},{n},{n % 7}\n" for n in range(100_000)))
    [(_, address)] = learning_curve(path)
    assert len(next(drawn(address).iter(f"{SVG}polyline")).attrib["points"].split()) <= MOST_POINTS + 1
    assert len(address) < 20_000


@pytest.mark.parametrize("content", [None, "step,epoch,loss\n", "step,epoch,loss\n1,1,2.0\n"])
def test_no_curve_without_two_points(tmp_path, content):
    if content is not None:
        (tmp_path / "history.csv").write_text(content)
    assert list(learning_curve(tmp_path / "history.csv")) == []


def test_a_curve_that_does_not_move(tmp_path):
    (tmp_path / "history.csv").write_text("step,epoch,loss\n1,1,0\n2,2,0\n")
    [(_, address)] = learning_curve(tmp_path / "history.csv")
    assert "nan" not in next(drawn(address).iter(f"{SVG}polyline")).attrib["points"]


def test_the_matrix_counts(tmp_path):
    path = tmp_path / "confusion.csv"
    path.write_text("actual,predicted\n10,10\n10,9\n9,9\n9,9\n")
    [(_, address)] = confusion_matrix(path)
    texts = [text.text for text in drawn(address).iter(f"{SVG}text")]
    assert texts[:4] == ["9", "9", "10", "10"], "classes in the order of their numbers"
    assert texts[4:] == ["2", "1", "1"]


def test_a_class_s_name_cannot_break_the_picture(tmp_path):
    (tmp_path / "confusion.csv").write_text('actual,predicted\n<b>,a&b\n"a&b",<b>\n')
    [(_, address)] = confusion_matrix(tmp_path / "confusion.csv")
    assert re.search("<b>", "".join(t.text for t in drawn(address).iter(f"{SVG}text")))
