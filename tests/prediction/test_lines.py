"""Answers as CSV and JSON lines: read back, a number has the same bits, and a text is the same."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

from tapeline.prediction.inputs import Piece
from tapeline.prediction.lines import Lines
from tapeline.runtime.errors import InputError

TEXTS = ["", " a ", "ö", 'x"y"', "a,b", "a\nb", "a\rb", '"', "\\", "\u2028"]


def rows(form, answers, files=("a.npy",)):
    """Return the answers as they are read back, the first half under the first file's name."""
    count = len(next(iter(answers.values())))
    cuts = [count * part // len(files) for part in range(len(files) + 1)]
    pieces = [
        Piece(Path(file), start, {"x": np.zeros(end - start)})
        for file, start, end in zip(files, cuts, cuts[1:], strict=False)
    ]
    file = io.BytesIO()
    lines = Lines(file, form)
    lines.write(lines.render(pieces, answers))
    lines.close()
    text = file.getvalue().decode()
    if form == "jsonl":
        return [json.loads(line) for line in text.splitlines()]
    return list(csv.DictReader(io.StringIO(text, newline="")))


def bits(values):
    """Return the bits, where any NaN is one."""
    return np.where(np.isnan(values), np.array(np.nan, values.dtype), values).view(f"u{values.itemsize}").tolist()


FORMULAS = [
    "=cmd|' /C calc'!A0",
    "+1+cmd",
    "-2+3",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    " =1",
    "=",
    "-inf",
    "＝1",
    "-1_000",
    "-٣",
]


@pytest.mark.parametrize("text", FORMULAS)
def test_a_spreadsheet_computes_no_text(text):
    """A class's name, a text or a file's name may be anybody's; a formula in it would run where the CSV is opened."""
    answers = {"class": np.array([text]), text: np.array([[1, 2]])}
    [found] = rows("csv", answers, files=(text,))
    assert found == {"file": f"'{text}", "row": "0", "class": f"'{text}", f"'{text}.0": "1", f"'{text}.1": "2"}
    [found] = rows("jsonl", answers, files=(text,))
    assert (found["file"], found["class"], found[text]) == (text, text, [1, 2])


@pytest.mark.parametrize("text", ["-1", "+1", "-1.5e3", "a=1", "'=1", "1-2"])
def test_what_is_no_formula_stays(text):
    assert rows("csv", {"class": np.array([text])})[0]["class"] == text


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_floats_of_all_kinds(form, dtype):
    kind = f"u{np.dtype(dtype).itemsize}"
    some = np.random.default_rng(0).integers(0, np.iinfo(kind).max, 20_000, kind, endpoint=True).view(dtype)
    edges = [0.0, -0.0, 1, -1, 0.1, 1e4, 65504, np.nan, np.inf, -np.inf, np.finfo(dtype).max, np.finfo(dtype).tiny / 2]
    edges += [] if dtype == np.float16 else [1e9, 9_999_999_488, 1e10, 123_456_789, 2**53]
    values = np.concatenate([np.array(edges, dtype), some, np.arange(-500, 500).astype(dtype)])
    with np.errstate(over="ignore", invalid="ignore"):
        found = np.array([float(row["y"]) for row in rows(form, {"y": values})]).astype(dtype)
    assert bits(found) == bits(values)


def test_a_float_has_no_more_digits_than_it_needs():
    values = np.array([0.1, 1 / 3, 1e-7, 16_777_216, 0.5, -0.0], np.float32)
    assert [row["y"] for row in rows("csv", {"y": values})] == [
        "0.1",
        "0.33333334",
        "1e-7",
        "16777216.0",
        "0.5",
        "-0.0",
    ]
    halves = np.array([0.1, 1 / 3, 6e-8, 65504, -0.0, np.nan], np.float16)
    assert [row["y"] for row in rows("csv", {"y": halves})] == ["0.1", "0.3333", "6e-8", "65504.0", "-0.0", "nan"]
    some = np.random.default_rng(1).integers(0, 2**32, 5000, np.uint32).view(np.float32)
    some = some[np.isfinite(some)]

    def digits(text):
        return len(text.partition("e")[0].replace(".", "").strip("-0"))

    for row, value in zip(rows("csv", {"y": some}), some, strict=True):
        assert digits(row["y"]) <= digits(np.format_float_scientific(value, unique=True)), value


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_texts_and_names_of_files(form):
    values = np.array([*TEXTS, b"\xff"], object)
    found = rows(form, {"y": values}, files=('a "b", c.npy', "ö.npy"))
    assert [row["y"] for row in found] == [*TEXTS, "\ufffd"]
    assert [row["file"] for row in found] == ['a "b", c.npy'] * 5 + ["ö.npy"] * 6
    assert [int(row["row"]) for row in found] == list(range(11))


def test_csv_quotes_as_python_does():
    given = [text for text in TEXTS if "\r" not in text]  # which Python 3.11 does not quote, and reads as two lines
    text, wanted = io.BytesIO(), io.StringIO(newline="")
    lines = Lines(text, "csv")
    lines.write(lines.render([Piece(Path("a"), 0, {"x": np.zeros(len(given))})], {"y": np.array(given, object)}))
    csv.writer(wanted, lineterminator="\n").writerows(
        [["file", "row", "y"], *(["a", number, one] for number, one in enumerate(given))]
    )
    assert text.getvalue().decode() == wanted.getvalue()


def test_nested_answers():
    values = np.arange(24, dtype=np.int8).reshape(2, 3, 4)
    empty = {"none": np.zeros((2, 0)), "inner": np.zeros((2, 0, 3)), "lists": np.zeros((2, 2, 0))}
    found = rows("jsonl", {"y": values, "yes": np.array([[True], [False]]), **empty})
    assert [row["y"] for row in found] == values.tolist() and [row["yes"] for row in found] == [[True], [False]]
    assert [found[1][name] for name in empty] == [[], [], [[], []]]
    table = rows("csv", {"y": values, "yes": np.array([[True], [False]]), **empty})
    assert list(table[0]) == ["file", "row", *(f"y.{number}" for number in range(12)), "yes.0"]
    assert list(table[1].values()) == ["a.npy", "1", *map(str, range(12, 24)), "False"]


def test_what_lines_do_not_hold():
    piece = Piece(Path("a"), 0, {"x": np.zeros(1)})
    lines = Lines(io.BytesIO(), "csv")
    lines.write(lines.render([piece], {"y": np.zeros((1, 2))}))
    with pytest.raises(InputError, match="vary in length, which a table cannot hold: use --out with a .jsonl"):
        lines.write(lines.render([piece], {"y": np.zeros((1, 3))}))
    with pytest.raises(InputError, match=r"two outputs of this model have the column 'y.0': choose one with --outputs"):
        rows("csv", {"y": np.zeros((1, 2)), "y.0": np.zeros(1)})
    assert rows("csv", {"y": np.array([1 + 2j])})[0]["y"] == "(1+2j)"
    with pytest.raises(InputError, match="complex numbers, which JSON does not support"):
        rows("jsonl", {"y": np.array([1 + 2j])})
