"""Answers as CSV and JSON lines: a class is answered by its number and its name."""

import io
import json
from pathlib import Path

import numpy as np
import pytest

from tapeline.prediction.inputs import Piece
from tapeline.prediction.lines import Lines
from tapeline.prediction.outputs import available, chosen, named, not_finite
from tapeline.registry.model import Model
from tapeline.runtime.errors import InputError

PIECE = Piece(Path("a.npy"), 4, {"x": np.zeros((3, 1))})
ANSWERS = {"class": np.array([1, 0, 1]), "probabilities": np.array([[0.25, 0.75], [1, 0], [0, 1]])}


def written(answers, form):
    text = io.BytesIO()
    lines = Lines(text, form)
    lines.write(lines.render([PIECE], answers))
    return text.getvalue().decode().splitlines()


def test_the_name_of_a_class_is_one_more_column_and_the_others_stay():
    plain, more = written(ANSWERS, "csv"), written(named(ANSWERS, ["cat", "dög, big"]), "csv")
    assert plain[0] == "file,row,class,probabilities.0,probabilities.1"
    names = ["class_name", '"dög, big"', "cat", '"dög, big"']
    assert more == [f"{line},{name}" for line, name in zip(plain, names, strict=True)]
    rows = [json.loads(line) for line in written(named(ANSWERS, ["cat", "dog"]), "jsonl")]
    assert rows[0] == {"file": "a.npy", "row": 4, "class": 1, "probabilities": [0.25, 0.75], "class_name": "dog"}


@pytest.mark.parametrize(
    ("answers", "classes"),
    [
        (ANSWERS, []),
        ({"y": np.ones(3)}, ["cat", "dog"]),
        ({**ANSWERS, "class_name": np.array(["a", "b", "c"])}, ["cat", "dog"]),
        ({"class": np.array([0.5, 0.5, 1])}, ["cat", "dog"]),
    ],
)
def test_what_has_no_class_names_is_answered_as_before(answers, classes):
    assert named(answers, classes) == answers


def test_a_number_that_no_class_has():
    assert named({"class": np.array([2, -1, 0])}, ["cat", "dog"])["class_name"].tolist() == ["", "", "cat"]


def test_the_classes_are_those_of_the_description():
    content = {"metrics": {"loss": 1.0, "confusion": {"classes": ["cat", "dog"], "counts": []}}}
    assert Model(content, 0).classes == ["cat", "dog"]
    assert Model({"metrics": {"loss": 1.0}}, 0).classes == []


DIGITS = {"class": "int64", "logits": "float32", "features": "float32", "probabilities": "float32"}


def test_what_is_written():
    names = available(DIGITS, ["cat", "dog"])
    assert names == ["class", "features", "logits", "probabilities", "class_name"]
    assert available(DIGITS, []) == names[:-1] == available({**DIGITS, "class": "float32"}, ["cat"])
    assert chosen(names, []) == ["class", "probabilities", "class_name"]
    assert chosen(["features", "logits"], []) == ["features", "logits"], "there is nothing else"
    assert chosen(names, ["probabilities", "class"]) == ["class", "probabilities"], "a name is that one alone"
    assert chosen(names, ["cl", "log"]) == ["class", "logits", "class_name"]


@pytest.mark.parametrize("word", ["clas s", "", "Class", "row"])
def test_an_output_that_the_model_has_not(word):
    with pytest.raises(InputError) as raised:
        chosen(available(DIGITS, []), ["class", word])
    said = f"--outputs has {word!r}, but the model's outputs are class, features, logits, probabilities"
    assert said in str(raised.value)


def test_answers_that_are_not_finite_are_found_by_their_examples():
    answers = {
        "class": np.array([0, 1, 2]),
        "p": np.array([[1, 0], [np.nan, 1], [0, np.inf]]),
        "text": np.array(["nan"] * 3),
    }
    assert not_finite(answers) == [1, 2]
    assert not_finite({"p": np.zeros((0, 2))}) == []
