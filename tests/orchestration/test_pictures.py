"""The report's pictures: drawn from the stages' files, named axes, readable in both themes, small, and right."""

import base64
import re
import xml.etree.ElementTree as ElementTree

import pytest

from tapeline.orchestration.reports.drawing import COLOURS
from tapeline.orchestration.reports.pictures import (
    MOST_CLASSES,
    MOST_POINTS,
    confusion_matrix,
    learning_curves,
    scatter,
)

SVG = "{http://www.w3.org/2000/svg}"


def drawn(address):
    kind, _, content = address.partition(",")
    assert kind == "data:image/svg+xml;base64"
    return ElementTree.fromstring(base64.b64decode(content))


def texts(picture):
    return ["".join(text.itertext()).strip() for text in picture.iter(f"{SVG}text")]


def line(picture, colour):
    """Return the points of the line of a colour, from the left and the top; the legend's is clipped by no axes."""
    lines = [path for path in picture.iter(f"{SVG}path") if "clip-path" in path.attrib]
    [found] = [path for path in lines if f"stroke: {colour}" in path.attrib["style"]]
    return [(float(x), float(y)) for x, y in re.findall(r"[ML] (-?[\d.]+) (-?[\d.]+)", found.attrib["d"])]


def height(picture):
    return float(picture.attrib["height"].removesuffix("pt"))


def history(path, rows, *, names="loss"):
    path.write_text(f"step,epoch,{names}\n" + "".join(f"{row}\n" for row in rows))
    return path


@pytest.fixture
def path(tmp_path):
    return tmp_path / "file.csv"


def confused(path, pairs):
    path.write_text("actual,predicted\n" + "".join(f"{actual},{predicted}\n" for actual, predicted in pairs))
    return list(confusion_matrix(path))


def test_a_curve_of_both_splits(path):
    history(path, ["10,1,4.0,", "20,2,2.0,3.0", "30,3,0.0,1.0"], names="loss,val_loss")
    [(title, address)] = learning_curves(path)
    assert title == "loss over steps"
    train, val = (line(drawn(address), colour) for colour in COLOURS[:2])
    assert len(train) == 3
    assert [x for x, _ in train] == sorted(x for x, _ in train)
    assert [y for _, y in train] == sorted(y for _, y in train), "a falling loss falls"
    assert len(val) == 2


def test_axes_and_lines_are_named(path):
    history(path, ["1,1,4.0,5.0,0.1", "2,2,2.0,3.0,0.2"], names="loss,val_loss,accuracy")
    [(title, address)] = learning_curves(path)
    assert title == "loss, accuracy over steps", "one picture of all metrics"
    words = texts(drawn(address))
    assert words.count("step") == 2
    assert words.count("train") == words.count("val") == 1, "one legend"
    assert {"loss", "accuracy"} <= set(words)


def test_a_metric_of_validation_alone_has_a_curve(path):
    history(path, ["1,1,4.0", "2,2,2.0"], names="val_exact")
    [(_, address)] = learning_curves(path)
    assert {"exact", "val"} <= set(texts(drawn(address)))


def test_a_long_history_stays_small_and_keeps_its_peak(path):
    history(path, [f"{n},{n},{1000 if n == 50_001 else n % 7}" for n in range(100_000)])
    [(_, address)] = learning_curves(path)
    points = line(drawn(address), COLOURS[0])
    assert len(points) <= MOST_POINTS
    assert len(address) < 30_000
    heights = sorted(y for _, y in points)
    assert heights[1] - heights[0] > 50, "one point stands out at the top"


def test_few_points_are_drawn_smaller_and_marked(path):
    few, many = (
        drawn(next(learning_curves(history(path, [f"{n},{n},{n}" for n in range(count)])))[1]) for count in (3, 50)
    )
    assert height(few) < height(many)
    marks = [len(list(picture.iter(f"{SVG}use"))) for picture in (few, many)]
    assert marks[0] >= 3 + 2, "a mark at each point, beside the axes' own"
    assert marks[1] < 50


@pytest.mark.parametrize(
    "content",
    [
        None,
        "step,epoch,loss\n",
        "step,epoch,loss\n1,1,2.0\n",
        "step,epoch,loss\n1,1,nan\n2,2,inf\n",
        "step,epoch\n1,1\n2,2\n",
    ],
)
def test_no_curve_without_two_points(path, content):
    if content is not None:
        path.write_text(content)
    assert list(learning_curves(path)) == []


def test_a_curve_that_does_not_move(path):
    [(_, address)] = learning_curves(history(path, ["1,1,0", "2,2,0"]))
    assert len({y for _, y in line(drawn(address), COLOURS[0])}) == 1


def test_a_picture_fits_a_light_and_a_dark_page(path):
    [(_, address)] = learning_curves(history(path, ["1,1,4.0", "2,2,2.0"]))
    text = base64.b64decode(address.partition(",")[2]).decode()
    assert "prefers-color-scheme:dark" in text and "prefers-color-scheme:light" in text
    for text_ in drawn(address).iter(f"{SVG}text"):
        assert "currentColor" in text_.attrib["style"]
    fills = set(re.findall(r"fill: (#\w+)", text))
    assert not fills & {"#ffffff", "#000000"}, "no background, nothing that one theme hides"


def test_the_same_file_gives_the_same_bytes(path):
    history(path, ["1,1,4.0", "2,2,2.0"])
    assert list(learning_curves(path)) == list(learning_curves(path))


def test_the_matrix_counts_and_says_which_side_is_actual(path):
    [(title, address)] = confused(path, [(10, 10), (10, 9), (9, 9), (9, 9)])
    assert title == "confusion matrix"
    words = texts(drawn(address))
    assert words[:3] == ["9", "10", "predicted"], "classes in the order of their numbers"
    assert words[3:6] == ["9", "10", "actual"]
    assert words[6:9] == ["2", "1", "1"]


@pytest.mark.parametrize("long", [False, True])
def test_no_title_is_cut_off(path, long):
    """That of a matrix of two classes was, and that of a curve with a long name on the right."""
    if long:
        history(path, ["1,1,4.0,5.0", "2,2,2.0,3.0"], names=f"loss,{'balanced_accuracy_of_the_second_head_' * 2}")
    found = learning_curves(path) if long else confused(path, [("no", "no"), ("yes", "no")])
    [(_, address)] = found
    picture = drawn(address)
    width = float(picture.attrib["width"].removesuffix("pt"))
    titles = [
        text for text in picture.iter(f"{SVG}text") if "text-anchor: start; fill: current" in text.attrib["style"]
    ]
    for text in titles:
        assert float(text.attrib["x"]) + 5.3 * len(text.text) <= width, f"{text.text}: 9 px, 0.59 em a letter"
    assert any(text.text.startswith("balanced" if long else "confusion") for text in titles)


def test_a_large_matrix_is_cut_to_the_classes_with_mistakes_and_says_so(path):
    pairs = [(n, n) for n in range(100)] + [(7, 93)] * 5
    [(title, address)] = confused(path, pairs)
    assert title == f"confusion matrix: the {MOST_CLASSES} of 100 classes with the most errors"
    words = texts(drawn(address))
    assert title in words
    assert {"7", "93", "5"} <= set(words)
    assert "99" not in words
    assert float(drawn(address).attrib["width"].removesuffix("pt")) * 96 / 72 < 700, "as wide as Prefect's page"


def test_no_matrix_of_one_class(path):
    assert confused(path, [(1, 1)]) == []
    assert list(confusion_matrix(path.with_name("none.csv"))) == []


def test_a_name_cannot_break_the_picture(path):
    path.write_text('actual,predicted\n<b>,a&b\n"a&b",$x^{2$\n漢字,"\x07"\n')
    [(_, address)] = confusion_matrix(path)
    assert {"<b>", "a&b", "$x^{2$", "漢字"} <= set(texts(drawn(address)))


def test_a_name_that_only_looks_like_a_number_is_no_number(path):
    [(_, address)] = confused(path, [("--5", "--5"), (".-5", "-2"), ("-.5", "10"), ("9", "-2")])
    words = texts(drawn(address))
    assert words[: words.index("predicted")] == ["-2", "-.5", "9", "10", "--5", ".-5"]


def test_a_target_of_yes_and_no_is_drawn(path):
    path.write_text("actual,predicted\nTrue,0.9\nFalse,0.25\n")
    [(_, address)] = scatter(path)
    path.write_text("actual,predicted\n1,0.9\n0,0.25\n")
    assert list(scatter(path)) == [("predicted over actual", address)]


def test_what_was_predicted_over_what_was(path):
    path.write_text("actual,predicted\n1,1.5\n2,nan\n3,2.5\n")
    [(title, address)] = scatter(path)
    assert title == "predicted over actual"
    assert {"actual", "predicted"} <= set(texts(drawn(address)))
    path.write_text("actual,predicted\n")
    assert list(scatter(path)) == []
